#include "remat/few_tries.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "plan/sequence_simulator.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FewTriesTuning {
  // Of what is too much: the part of it that transfers are to bring out, of the tries behind that
  // of reruns alone. All of it: nothing runs again.
  double moved[4] = {0.1, 0.25, 0.5, 1};
  int64_t share = 5;  // of the work: the part of it for the reruns of each of these tries
};
constexpr FewTriesTuning kFewTries;

class FewTries {
 public:
  FewTries(const plan::ScheduleProblem& problem, const JointOptions& options,
           int64_t least_inner_bytes)
      : problem_(problem),
        options_(options),
        least_inner_(std::max(*problem.budget_bytes, least_inner_bytes)),
        starts_(options.remat.starts),
        without_link_(problem) {
    plan::forbid_transfers(without_link_);
    for (const plan::SchedOpId op : options.remat.least_peak_order)
      once_.push_back(SchedAction::run(op));
    const auto profile = plan::simulate_sequence(problem, once_);
    LT_CHECK(profile.has_value(), "the order of least peak is no schedule");
    once_peak_ = profile->peak_bytes;
  }

  RematOutcome solve() {
    RematOutcome best;
    if (options_.recompute) best = runs_within(least_inner_, options_.remat.limits.max_units);
    if (!problem_.link || !options_.transfers) return best;
    if (least_inner_ > budget()) best = with_transfers(best.sequence);
    for (const double moved : kFewTries.moved) {
      RematOutcome made = moved_in_part(moved);
      const bool is_worse = made.sequence.empty() || made.seconds > best.seconds;
      if (!best.sequence.empty() && is_worse) break;
      if (!made.sequence.empty()) best = std::move(made);
    }
    return best;
  }

 private:
  int64_t budget() const { return *problem_.budget_bytes; }
  Limits left() const { return options_.remat.limits.after(seconds_since(start_)); }

  RematOutcome moved_in_part(double part) {
    const bool is_all = part == 1;
    if (is_all) return with_transfers(once_);
    if (!options_.recompute) return {};
    const auto over = static_cast<double>(std::max(once_peak_ - least_inner_, int64_t{0}));
    const int64_t units = std::max<int64_t>(1, options_.remat.limits.max_units / kFewTries.share);
    return with_transfers(
        runs_within(least_inner_ + static_cast<int64_t>(part * over), units).sequence);
  }

  RematOutcome runs_within(int64_t budget_bytes, int64_t units) {
    without_link_.budget_bytes = budget_bytes;
    RematOptions remat = options_.remat;
    remat.limits = left().with_units(units);
    remat.cut_bound = false;
    remat.starts = starts_;
    RematOutcome found = remat::solve(without_link_, remat);
    if (!found.sequence.empty()) starts_.push_back(found.sequence);
    return found;
  }

  RematOutcome with_transfers(const std::vector<SchedAction>& runs) const {
    RematOutcome made;
    if (runs.empty()) return made;
    SwapOptions swap = options_.swap;
    swap.local_search = false;
    swap.tidy_units = 0;
    swap.limits = left();
    SwapOutcome found = add_transfers(problem_, runs, swap);
    made.sequence = std::move(found.sequence);
    made.peak_bytes = found.peak_bytes;
    made.seconds = found.seconds;
    return made;
  }

  const Clock::time_point start_ = Clock::now();
  const plan::ScheduleProblem& problem_;
  const JointOptions& options_;
  const int64_t least_inner_;
  std::vector<std::vector<SchedAction>> starts_;
  plan::ScheduleProblem without_link_;
  std::vector<SchedAction> once_;
  int64_t once_peak_ = 0;
};

}  // namespace

RematOutcome solve_in_few_tries(const plan::ScheduleProblem& problem, const JointOptions& options,
                                int64_t least_inner_bytes) {
  return FewTries(problem, options, least_inner_bytes).solve();
}

}  // namespace lowtide::remat
