#include "remat/joint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/work.h"
#include "plan/sequence_simulator.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/time_bound.h"
#include "remat/by_rule.h"
#include "remat/few_tries.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;
using plan::SolveStatus;

// One inner budget tried: the runs of the retention search, and what transfers make of them.
struct Try {
  int64_t inner_bytes = 0;
  std::vector<SchedAction> runs;
  SwapOutcome swap;
};

class Joint {
 public:
  Joint(const ScheduleProblem& problem, const JointOptions& options)
      : problem_(problem), options_(options), without_link_(problem) {
    plan::forbid_transfers(without_link_);
  }

  RematOutcome solve() {
    if (!find_bound()) {
      result_.status = SolveStatus::kInfeasible;
      return result_;
    }
    begin();
    while (!over() && !idle_) round();
    finish();
    return result_;
  }

 private:
  // False: proven that nothing fits.
  bool find_bound() {
    for (const plan::SchedOp& op : problem_.ops) result_.lower_bound_seconds += op.seconds;
    const int64_t budget = *problem_.budget_bytes;
    if (!options_.remat.cut_bound)
      return floor_of(problem_, {.enough = 0, .budget = budget}).bytes <= budget;
    TimeBoundOptions asked = asked_by_search(options_.remat.bound, options_.remat.limits);
    asked.several &= options_.remat.several_cuts;
    TimeBound bound = time_bound(problem_, asked);
    result_.lower_bound_seconds = bound.lower_bound_seconds;
    result_.work.units += bound.single_work + bound.several_work;
    const bool feasible = bound.feasible;
    if (options_.remat.bound) result_.bound = std::move(bound);
    return feasible;
  }

  // The order of least peak, the schedules that the caller has, and what transfers make of them.
  void begin() {
    length_ =
        kJoint.first_units_per_op * static_cast<int64_t>(std::max<size_t>(1, problem_.ops.size()));
    unlimited_runs_ = runs_within(std::nullopt, 1);
    const auto profile = plan::simulate_sequence(problem_, unlimited_runs_);
    LT_CHECK(profile.has_value(), "the unlimited order is no schedule");
    unlimited_ = std::max(profile->peak_bytes, *problem_.budget_bytes);
    if (options_.rules) look_at_rules();
    for (const auto& start : options_.remat.starts) {
      const auto known = plan::simulate_sequence(without_link_, start);
      if (known && (options_.recompute || known->reruns == 0))
        attempt(within(known->peak_bytes), start, length_);
    }
    tries_.clear();
  }

  // What needs no search is known first. The rounds are what they are without it, and it is no part
  // of the work that limits speak of.
  void look_at_rules() {
    const auto ops = static_cast<int64_t>(std::max<size_t>(1, problem_.ops.size()));
    const int64_t units = std::min(kJoint.rule_units_per_op * ops, kJoint.most_rule_units);
    const int64_t spent = spent_;
    const ByRule rule =
        by_rule(problem_, baselines::Method::kXla, options_, left().with_units(units));
    count(rule.work);
    std::vector<SchedAction> given;
    for (const plan::SchedOpId op : problem_.ops.ids()) given.push_back(SchedAction::run(op));
    for (const bool is_rule : {true, false}) {
      Try t{.inner_bytes = 0, .runs = is_rule ? rule.runs : given, .swap = {}};
      if (t.runs.empty() || (!is_rule && given == rule.runs) || done()) continue;
      add_transfers_to(t, length_, is_rule ? rule.sequence : std::vector<SchedAction>());
      if (!is_better(t, by_rule_)) continue;
      tidy(t);
      by_rule_ = std::move(t);
    }
    spent_ = spent;
    report(plan::SearchStage::kTransfers);
  }

  // An inner budget.
  int64_t within(int64_t peak_bytes) const {
    return std::clamp(peak_bytes, *problem_.budget_bytes, unlimited_);
  }

  // Every round is the same whatever the limit of work is, so that more work only adds rounds and
  // tries to what less work did.
  void round() {
    tries_.clear();
    if (!best_.swap.sequence.empty() && !best_.swap.tidy) tidy(best_);
    if (!options_.recompute || unlimited_ <= *problem_.budget_bytes) {
      transfers_alone(length_);
      idle_ = transfers_done_;
    } else {
      search_within(*problem_.budget_bytes, kJoint.share_of_recompute);
      transfers_alone(share(kJoint.share_of_transfers));
      narrow_down();
    }
    ++round_;
    length_ =
        std::min(length_ * kJoint.growth, kJoint.longest_round);  // small problems take many rounds
  }

  int64_t share(double of_round) const {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(length_) * of_round));
  }

  // The limit ends the work between tries, but not before each kind of try was made.
  bool over() const {
    return done() || stopped() || (round_ > 0 && spent_ >= options_.remat.limits.max_units);
  }

  // More work makes no difference where the last time some was left, nor much where it is far off.
  void transfers_alone(int64_t units) {
    if (!transfers_done_) {
      transfers_alone_ = attempt(unlimited_, unlimited_runs_, units);
      const SwapOutcome& swap = transfers_alone_.swap;
      transfers_done_ =
          swap.work.units < units ||
          (!swap.sequence.empty() && swap.seconds > kJoint.hopeless * best_.swap.seconds);
    } else {
      tries_.push_back(transfers_alone_);
    }
  }

  // Tries where the best so far was found, then halves the wider of the two intervals beside the
  // best of the round.
  void narrow_down() {
    const int64_t budget = *problem_.budget_bytes;
    const double rest =
        (1 - kJoint.share_of_transfers - kJoint.share_of_recompute) / std::max(1, options_.tries);
    if (!over() && best_.inner_bytes > budget && best_.inner_bytes < unlimited_)
      search_within(best_.inner_bytes, rest);
    for (int i = 2; i < options_.tries && !over(); ++i) {
      const size_t best = best_try();
      int64_t from = 0, to = 0;
      for (size_t side : {best, best + 1}) {
        if (side == 0 || side >= tries_.size()) continue;
        const int64_t low = tries_[side - 1].inner_bytes, high = tries_[side].inner_bytes;
        if (high - low > to - from) from = low, to = high;
      }
      const int64_t inner = from + (to - from) / 2;
      if (inner == from || inner == to) return;
      search_within(inner, rest);
    }
  }

  void search_within(int64_t inner, double of_round) {
    const int64_t units = share(of_round * kJoint.share_of_runs);
    std::vector<SchedAction> runs = runs_within(inner, units);
    attempt(inner, std::move(runs), share(of_round * (1 - kJoint.share_of_runs)));
  }

  // The retention search without transfers.
  std::vector<SchedAction> runs_within(std::optional<int64_t> inner, int64_t units) {
    without_link_.budget_bytes = inner;
    RematOptions options = options_.remat;
    options.limits = left().with_units(units);
    options.proof_units = 0;
    options.seed += static_cast<uint64_t>(round_);
    options.cut_bound = false;
    options.bound.reset();
    if (round_ > 0) {  // their children are known
      options.cut_start = options.order_start = false;
      options.least_peak_order = {};
    }
    options.progress = [this](const plan::Progress&) { report(plan::SearchStage::kRuns); };
    for (const Try& t : tries_) options.starts.push_back(t.runs);
    if (!best_.runs.empty()) options.starts.push_back(best_.runs);
    const RematOutcome outcome = remat::solve(without_link_, options);
    count(outcome.work);
    result_.edits += outcome.edits;
    result_.cut_short |= outcome.cut_short;
    return outcome.sequence;
  }

  // `known`: a schedule of the same runs with moves to start from.
  void add_transfers_to(Try& t, int64_t units, std::span<const SchedAction> known = {}) {
    if (t.runs.empty()) return;
    SwapOptions swap = options_.swap;
    const double seconds = std::min(swap.limits.max_seconds, left().max_seconds);
    swap.limits = {std::min(units, swap.limits.max_units), seconds, options_.remat.limits.cancel};
    swap.tidy_units = 0;
    swap.known = known;
    t.swap = add_transfers(problem_, t.runs, swap);
    count(t.swap.work);
  }

  const Try& attempt(int64_t inner, std::vector<SchedAction> runs, int64_t units) {
    Try t{inner, std::move(runs), {}};
    add_transfers_to(t, units);
    if (is_better(t, best_)) {
      tidy(t);
      best_ = t;
    }
    if (t.swap.crowded &&
        (!result_.crowded || t.swap.crowded->needed_bytes < result_.crowded->needed_bytes))
      result_.crowded = t.swap.crowded;
    const auto at =
        std::lower_bound(tries_.begin(), tries_.end(), inner,
                         [](const Try& other, int64_t bytes) { return other.inner_bytes < bytes; });
    const Try& inserted = *tries_.insert(at, std::move(t));
    report(plan::SearchStage::kTransfers);
    return inserted;
  }

  // Of what becomes the best. The work is a share of the round's: if it depended on the limit of
  // all work, more could make less of it. What is left of the best, the next round tidies.
  void tidy(Try& t) {
    if (!options_.swap.tidies()) return;
    SwapOptions swap = options_.swap;
    swap.tidy_units = std::max(kJoint.least_tidy_units, share(kJoint.share_of_tidying));
    swap.limits = left().with_units(swap.limits.max_units);
    const plan::SolveWork searched = t.swap.work;
    t.swap = tidy_transfers(problem_, t.runs, std::move(t.swap), swap);
    count(std::exchange(t.swap.work, searched));
  }

  // What a try found is not known to fit before transfers are added.
  void report(plan::SearchStage stage) const {
    if (!options_.remat.progress) return;
    plan::Progress progress;
    progress.stage = stage;
    progress.lower_bound_seconds = result_.lower_bound_seconds;
    progress.budget_bytes = *problem_.budget_bytes;
    if (const SwapOutcome& best = best_of_all().swap; !best.sequence.empty()) {
      progress.seconds = best.seconds;
      progress.peak_bytes = best.peak_bytes;
    }
    progress.share = std::min(
        1.0, static_cast<double>(spent_) / static_cast<double>(options_.remat.limits.max_units));
    options_.remat.progress(progress);
  }

  static bool is_better(const Try& a, const Try& b) {
    return !a.swap.sequence.empty() && (b.swap.sequence.empty() || a.swap.seconds < b.swap.seconds);
  }

  // Of this round. Where nothing fits yet, more recomputation is the better side.
  size_t best_try() const {
    size_t best = 0;
    for (size_t i = 1; i < tries_.size(); ++i)
      if (is_better(tries_[i], tries_[best])) best = i;
    return best;
  }

  // Of the rounds and the rules.
  const Try& best_of_all() const { return is_better(by_rule_, best_) ? by_rule_ : best_; }

  bool done() const {
    const SwapOutcome& best = best_of_all().swap;
    return !best.sequence.empty() && best.seconds <= result_.lower_bound_seconds * (1 + 1e-9);
  }
  bool stopped() const { return options_.remat.limits.stop_after(clock_.seconds()); }
  Limits left() const { return options_.remat.limits.after(clock_.seconds()); }

  void finish() {
    const SwapOutcome& best = best_of_all().swap;
    result_.sequence = best.sequence;
    result_.peak_bytes = best.peak_bytes;
    result_.seconds = best.seconds;
    result_.cut_short |= stopped();
    result_.status = done()                                          ? SolveStatus::kOptimal
                     : result_.cut_short || result_.sequence.empty() ? SolveStatus::kLimit
                                                                     : SolveStatus::kFeasible;
    result_.work.seconds = clock_.seconds();
    if (!result_.sequence.empty()) result_.crowded.reset();
  }

  void count(const plan::SolveWork& work) {
    spent_ += work.units;
    result_.work.units += work.units;
    result_.work.timed_out |= work.timed_out;
  }

  const ScheduleProblem& problem_;
  const JointOptions& options_;
  ScheduleProblem without_link_;
  std::vector<SchedAction> unlimited_runs_;
  int64_t unlimited_ = 0;  // their peak; at least the budget
  int64_t spent_ = 0;      // units, those of the bound not counted
  int64_t length_ = 0;     // of the round
  int round_ = 0;
  std::vector<Try> tries_;  // of the round, by inner budget
  Try transfers_alone_;     // as last tried
  bool transfers_done_ = false, idle_ = false;
  Try best_;     // of the rounds
  Try by_rule_;  // by a published rule, or in the order that came in
  WorkBudget clock_;
  RematOutcome result_;
};

bool is_faster(const RematOutcome& one, const RematOutcome& other) {
  return !one.sequence.empty() && (other.sequence.empty() || one.seconds < other.seconds);
}

RematOutcome recompute_alone(const ScheduleProblem& problem, const RematOptions& options) {
  ScheduleProblem runs_only = problem;
  plan::forbid_transfers(runs_only);
  return remat::solve(runs_only, options);
}

// Both levers, and where that is loose each alone: rounds of a joint search divide its work among
// many inner budgets, and one lever with all of it can come out ahead. The best of them, with what
// is proven of both.
class EachAlone {
 public:
  EachAlone(const ScheduleProblem& problem, const JointOptions& options)
      : problem_(problem), options_(options), result_(Joint(problem, options).solve()) {}

  RematOutcome solve() {
    if (!is_loose()) return std::move(result_);
    RematOutcome runs = recompute_alone(problem_, again().remat);
    JointOptions transfers = again();
    transfers.recompute = false;
    if (!take(Joint(problem_, transfers).solve())) return std::move(result_);
    std::vector<SchedAction> start = runs.sequence;
    if (!take(std::move(runs))) return std::move(result_);
    if (options_.rules && !take(by_a_rule())) return std::move(result_);
    std::vector<std::vector<SchedAction>> starts = {std::move(start)};
    if (is_above(kJoint.far) && !take_few_tries(starts)) return std::move(result_);
    JointOptions last = again();
    last.remat.starts.insert(last.remat.starts.begin(), starts.begin(), starts.end());
    last.remat.limits.max_units /= kJoint.share_of_last;
    take(Joint(problem_, last).solve());
    return std::move(result_);
  }

 private:
  // Without a bound nothing says how good the answer is, and nobody asked.
  bool is_loose() const {
    if (!options_.remat.cut_bound || !options_.each_alone) return false;
    if (result_.status == SolveStatus::kInfeasible || result_.cut_short) return false;
    return is_above(kJoint.loose);
  }

  bool is_above(double share) const {
    return result_.sequence.empty() || result_.seconds > result_.lower_bound_seconds * (1 + share);
  }

  JointOptions again() const {
    JointOptions options = options_;
    options.remat.limits = options_.remat.limits.after(clock_.seconds());
    options.remat.bound.reset();
    options.remat.cut_bound = false;
    options.remat.progress = {};
    options.rules = false;  // they are known
    return options;
  }

  // What a rule that takes longer moves, and the transfer search beyond it.
  RematOutcome by_a_rule() const {
    const Limits left = options_.remat.limits.after(clock_.seconds());
    ByRule rule = by_rule(problem_, baselines::Method::kPofo, options_, left);
    RematOutcome made;
    made.work = rule.work;
    if (rule.sequence.empty()) return made;
    SwapOptions swap = options_.swap;
    swap.limits = left.with_units(std::min(left.max_units, swap.limits.max_units));
    swap.known = rule.sequence;
    const SwapOutcome moved = add_transfers(problem_, rule.runs, swap);
    made.work.units += moved.work.units;
    made.sequence = moved.sequence;
    made.peak_bytes = moved.peak_bytes;
    made.seconds = moved.seconds;
    return made;
  }

  // Just above the budget, and above what reruns alone can keep, where that is more: there
  // intervals between recompute alone and transfers alone are halved last. Most of what is too
  // much runs again, and transfers have little to do. Their runs come behind `starts`. As take.
  bool take_few_tries(std::vector<std::vector<SchedAction>>& starts) {
    ScheduleProblem runs_only = problem_;
    plan::forbid_transfers(runs_only);
    const int64_t floor = floor_of(runs_only, {}).bytes;
    for (const int64_t least_inner : {int64_t{0}, floor}) {
      if (least_inner > 0 && least_inner <= *problem_.budget_bytes) continue;
      RematOutcome tried = in_few_tries(least_inner);
      if (!tried.sequence.empty()) starts.push_back(plan::runs_of(tried.sequence));
      if (!take(std::move(tried))) return false;
    }
    return true;
  }

  RematOutcome in_few_tries(int64_t least_inner_bytes) const {
    JointOptions few = again();
    few.remat.limits.max_units /= kJoint.share_of_last;
    std::vector<plan::SchedOpId> order(few.remat.least_peak_order.begin(),
                                       few.remat.least_peak_order.end());
    if (order.empty() && few.remat.reorder) {
      const plan::ScheduleOutcome least = least_peak_order(problem_, few.remat);
      order = least.sequence;
    }
    if (order.empty()) order.assign(problem_.ops.ids().begin(), problem_.ops.ids().end());
    few.remat.least_peak_order = order;
    return solve_in_few_tries(problem_, few, least_inner_bytes);
  }

  // False: there is no time for more.
  bool take(RematOutcome other) {
    result_.work.units += other.work.units;
    result_.work.timed_out |= other.work.timed_out;
    result_.edits += other.edits;
    result_.cut_short |= other.cut_short;
    if (is_faster(other, result_)) {
      result_.sequence = std::move(other.sequence);
      result_.peak_bytes = other.peak_bytes;
      result_.seconds = other.seconds;
      result_.status = SolveStatus::kFeasible;
      result_.crowded.reset();
    }
    result_.work.seconds = clock_.seconds();
    return !result_.cut_short;
  }

  const ScheduleProblem& problem_;
  const JointOptions& options_;
  WorkBudget clock_;
  RematOutcome result_;
};

}  // namespace

RematOutcome solve_joint(const ScheduleProblem& problem, const JointOptions& options) {
  if (problem.budget_bytes && problem.link && options.transfers)
    return options.recompute ? EachAlone(problem, options).solve()
                             : Joint(problem, options).solve();
  if (options.recompute) return recompute_alone(problem, options.remat);
  ScheduleProblem runs_only = problem;
  plan::forbid_transfers(runs_only);
  for (plan::SchedOp& op : runs_only.ops) op.may_rerun = false;
  RematOptions once_only = options.remat;
  once_only.bound.reset();  // nobody can claim what speaks of these schedules alone
  return solve(runs_only, once_only);
}

}  // namespace lowtide::remat
