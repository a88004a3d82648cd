#include "order/waist.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "order/interval_cut.h"
#include "order/interval_problem.h"
#include "order/order_graph.h"
#include "order/portfolio.h"

namespace lowtide::order {
namespace {

using plan::InPlacePair;
using plan::ScheduleProfile;

class Waists {
 public:
  Waists(const plan::ScheduleProblem& problem, const plan::ProblemIndex& index,
         ProfiledOrder inherited, std::span<const OpId> touched, const WaistOptions& options)
      : problem_(problem),
        index_(index),
        options_(options),
        work_(options.limits, kUnitsPerStep),
        order_(std::move(inherited)),
        position_(problem.ops.size(), 0),
        is_touched_(problem.ops.size(), 0) {
    for (size_t at = 0; at < order_.sequence.size(); ++at)
      position_[order_.sequence[at]] = static_cast<int64_t>(at);
    for (const OpId op : touched) is_touched_[op] = 1;
  }

  WaistOutcome run() {
    Interval last;
    int64_t reach = options_.first_reach;
    bool may_lower = false;  // by the cut, of the order as it is
    while (is_too_high() && !work_.exhausted()) {
      const auto step = static_cast<int64_t>(order_.profile.peak_step);
      const Interval widest = around(step, options_.most_reach);
      may_lower = may_lower || (has_touched(widest) && can_lower(widest, step));
      if (!may_lower) break;
      if (!last.contains(step)) reach = options_.first_reach;
      last = around(step, reach);
      if (can_lower(last, step) && lower(last)) {
        may_lower = false;
        continue;
      }
      if (reach >= options_.most_reach) break;
      reach = std::min(2 * reach, options_.most_reach);
    }
    return finish();
  }

 private:
  bool is_too_high() const {
    return order_.profile.peak_bytes > std::max(options_.enough_bytes, problem_.resident_bytes);
  }

  int64_t alive_before(int64_t position) const {
    return position == 0 ? problem_.resident_bytes : order_.profile.after_bytes[position - 1];
  }

  // From waist to waist; of equal ones the outer.
  Interval around(int64_t step, int64_t reach) const {
    Interval found{step, step + 1};
    for (int64_t k = 1; k <= reach && k <= step; ++k)
      if (alive_before(step - k) <= alive_before(found.begin)) found.begin = step - k;
    const int64_t last = std::min<int64_t>(order_.sequence.size(), step + 1 + reach);
    for (int64_t end = step + 2; end <= last; ++end)
      if (alive_before(end) <= alive_before(found.end)) found.end = end;
    return found;
  }

  bool has_touched(Interval interval) const {
    for (int64_t at = interval.begin; at < interval.end; ++at)
      if (is_touched_[order_.sequence[at]]) return true;
    return false;
  }

  PlacedOrder placed() const { return {problem_, index_, order_.sequence, position_}; }

  // Whether orders of the interval may be worth it. If not, those of a narrower one neither: it has
  // fewer of them.
  bool can_lower(Interval interval, int64_t step) {
    ++cuts_;
    const int64_t least = interval_cut(placed(), interval, step, alive_before(step), work_);
    const int64_t peak = order_.profile.peak_bytes;
    const double promised = static_cast<double>(peak - least) / static_cast<double>(peak);
    return least < peak && (promised >= options_.worth || least <= options_.enough_bytes);
  }

  // Below the peak, or below the next highest step of all.
  int64_t enough_inside(Interval interval) const {
    int64_t most = options_.enough_bytes;
    const std::vector<int64_t>& bytes = order_.profile.step_bytes;
    for (size_t at = 0; at < bytes.size(); ++at)
      if (!interval.contains(static_cast<int64_t>(at)) && bytes[at] < order_.profile.peak_bytes)
        most = std::max(most, bytes[at]);
    return most;
  }

  // Whether the steps of the interval are now all below the peak that there was.
  bool lower(Interval interval) {
    work_.spend(interval.length());
    IntervalProblem own = interval_problem(placed(), interval, alive_before(interval.begin));
    plan::ScheduleProblem& inside = own.problem;
    inside.ops[OpId(0)].workspace_bytes =
        std::max<int64_t>(0, enough_inside(interval) - alive_before(interval.begin));
    OrderOptions options;
    options.limits = work_.left();
    const PartAnswer answer = solve_part(make_order_graph(inside), options);
    ++intervals_;
    work_.spend(answer.units / kUnitsPerStep);
    if (inside.resident_bytes + answer.peak_bytes >= order_.profile.peak_bytes) return false;
    if (!before_) before_ = order_;
    replace(interval, own, answer.sequence);
    return true;
  }

  void replace(Interval interval, const IntervalProblem& own, const std::vector<OpId>& sequence) {
    const auto simulated = plan::simulate(own.problem, sequence);
    LT_CHECK(simulated.has_value() && sequence[0] == OpId(0), "an interval's order is valid");
    std::vector<OpId> ops;
    for (size_t i = 1; i < sequence.size(); ++i)
      ops.push_back(order_.sequence[interval.begin + sequence[i].index() - 1]);
    ScheduleProfile& profile = order_.profile;
    replace_pairs(interval, own, simulated->reused);
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t at = interval.begin + i;
      order_.sequence[at] = ops[i];
      position_[ops[i]] = static_cast<int64_t>(at);
      profile.step_bytes[at] = simulated->step_bytes[i + 1];
      profile.after_bytes[at] = simulated->after_bytes[i + 1];
    }
    const auto highest = std::max_element(profile.step_bytes.begin(), profile.step_bytes.end());
    profile.peak_step = static_cast<size_t>(highest - profile.step_bytes.begin());
    profile.peak_bytes = std::max(*highest, problem_.resident_bytes);
  }

  // While positions and sequence are still those before.
  void replace_pairs(Interval interval, const IntervalProblem& own,
                     const std::vector<InPlacePair>& taken) {
    std::vector<InPlacePair>& all = order_.profile.reused;
    const auto from = [&](int64_t position) {
      return std::partition_point(all.begin(), all.end(), [&](const InPlacePair& pair) {
        return position_[pair.op] < position;
      });
    };
    std::vector<InPlacePair> pairs(all.begin(), from(interval.begin));
    for (const InPlacePair& pair : taken)
      pairs.push_back({order_.sequence[interval.begin + pair.op.index() - 1], own.value[pair.input],
                       own.value[pair.output]});
    pairs.insert(pairs.end(), from(interval.end), all.end());
    all = std::move(pairs);
  }

  WaistOutcome finish() {
    if (before_ && order_.profile.peak_bytes >= before_->profile.peak_bytes)
      order_ = *std::move(before_);
    return {std::move(order_), cuts_, intervals_, work_.used()};
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex& index_;
  const WaistOptions& options_;
  WorkBudget work_;
  ProfiledOrder order_;
  std::optional<ProfiledOrder> before_;  // once something has changed
  IdVector<OpId, int64_t> position_;
  IdVector<OpId, char> is_touched_;
  int cuts_ = 0, intervals_ = 0;
};

}  // namespace

WaistOutcome reschedule(const plan::ScheduleProblem& problem, const plan::ProblemIndex& index,
                        ProfiledOrder inherited, std::span<const OpId> touched,
                        const WaistOptions& options) {
  return Waists(problem, index, std::move(inherited), touched, options).run();
}

}  // namespace lowtide::order
