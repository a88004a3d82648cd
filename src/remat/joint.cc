#include "remat/joint.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "plan/sequence_simulator.h"
#include "remat/closure_cut.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;
using plan::SolveStatus;

std::vector<SchedAction> runs_of(const std::vector<SchedAction>& sequence) {
  std::vector<SchedAction> runs;
  for (const SchedAction& action : sequence)
    if (action.kind == SchedAction::Kind::kRun) runs.push_back(action);
  return runs;
}

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
    without_link_.link.reset();
    result_.work = {};
  }

  RematOutcome solve() {
    const CutBoundResult bound = closure_cut(problem_);
    result_.lower_bound_seconds = bound.lower_bound_seconds;
    result_.work.units += bound.work;
    if (!bound.feasible) {
      result_.status = SolveStatus::kInfeasible;
      return result_;
    }
    swap_alone();
    if (options_.recompute && !done()) narrow_down();
    finish();
    return result_;
  }

 private:
  // The retention search without transfers, within a share of the work.
  std::vector<SchedAction> runs_within(std::optional<int64_t> inner) {
    without_link_.budget_bytes = inner;
    RematOptions options = options_.remat;
    options.max_units /= std::max(1, options_.tries);
    options.cut_bound = false;
    for (const Try& t : tries_) options.starts.push_back(t.runs);
    const RematOutcome outcome = remat::solve(without_link_, options);
    count(outcome.work);
    result_.edits += outcome.edits;
    return outcome.sequence;
  }

  const Try& attempt(int64_t inner, std::vector<SchedAction> runs) {
    Try t{inner, std::move(runs), {}};
    if (!t.runs.empty()) {
      t.swap = add_transfers(problem_, t.runs, options_.swap);
      count(t.swap.work);
    }
    const auto at =
        std::lower_bound(tries_.begin(), tries_.end(), inner,
                         [](const Try& other, int64_t bytes) { return other.inner_bytes < bytes; });
    return *tries_.insert(at, std::move(t));
  }

  void swap_alone() {
    std::vector<SchedAction> runs = runs_within(std::nullopt);
    const auto profile = plan::simulate_sequence(problem_, runs);
    LT_CHECK(profile.has_value(), "the unlimited order is no schedule");
    unlimited_ = profile->peak_bytes;
    attempt(std::max(unlimited_, *problem_.budget_bytes), std::move(runs));
  }

  // Tries the real budget, then halves the wider of the two intervals beside the best.
  void narrow_down() {
    const int64_t budget = *problem_.budget_bytes;
    if (unlimited_ <= budget) return;
    attempt(budget, runs_within(budget));
    for (int i = 2; i < options_.tries && !done() && !cancelled(); ++i) {
      const size_t best = best_try();
      int64_t from = 0, to = 0;
      for (size_t side : {best, best + 1}) {
        if (side == 0 || side >= tries_.size()) continue;
        const int64_t low = tries_[side - 1].inner_bytes, high = tries_[side].inner_bytes;
        if (high - low > to - from) from = low, to = high;
      }
      const int64_t inner = from + (to - from) / 2;
      if (inner == from || inner == to) return;
      attempt(inner, runs_within(inner));
    }
  }

  // Where nothing fits yet, more recomputation is the better side.
  size_t best_try() const {
    size_t best = 0;
    for (size_t i = 1; i < tries_.size(); ++i) {
      const SwapOutcome &a = tries_[i].swap, &b = tries_[best].swap;
      if (!a.sequence.empty() && (b.sequence.empty() || a.seconds < b.seconds)) best = i;
    }
    return best;
  }

  bool done() const {
    const SwapOutcome& best = tries_[best_try()].swap;
    return !best.sequence.empty() && best.seconds <= result_.lower_bound_seconds * (1 + 1e-9);
  }
  bool cancelled() const {
    return options_.remat.cancel != nullptr && options_.remat.cancel->load();
  }

  void finish() {
    const SwapOutcome& best = tries_[best_try()].swap;
    result_.sequence = best.sequence;
    result_.peak_bytes = best.peak_bytes;
    result_.seconds = best.seconds;
    result_.status = done() ? SolveStatus::kOptimal : SolveStatus::kLimit;
  }

  void count(const plan::SolveWork& work) {
    result_.work.units += work.units;
    result_.work.seconds += work.seconds;
    result_.work.timed_out |= work.timed_out;
  }

  const ScheduleProblem& problem_;
  const JointOptions& options_;
  ScheduleProblem without_link_;
  std::vector<Try> tries_;  // by inner budget
  int64_t unlimited_ = 0;
  RematOutcome result_;
};

bool as_good(const RematOutcome& less_memory, const RematOutcome& more_memory) {
  return !less_memory.sequence.empty() &&
         (more_memory.sequence.empty() || less_memory.seconds <= more_memory.seconds);
}

}  // namespace

RematOutcome solve_joint(const ScheduleProblem& problem, const JointOptions& options) {
  if (problem.budget_bytes && problem.link && options.transfers)
    return Joint(problem, options).solve();
  ScheduleProblem runs_only = problem;
  runs_only.link.reset();
  if (!options.recompute)
    for (plan::SchedOp& op : runs_only.ops) op.may_rerun = false;
  return solve(runs_only, options.remat);
}

std::vector<RematOutcome> solve_front(const ScheduleProblem& problem,
                                      std::span<const int64_t> budgets,
                                      const JointOptions& options) {
  std::vector<size_t> by_budget(budgets.size());
  std::iota(by_budget.begin(), by_budget.end(), size_t{0});
  std::stable_sort(by_budget.begin(), by_budget.end(),
                   [&](size_t a, size_t b) { return budgets[a] > budgets[b]; });
  std::vector<RematOutcome> outcomes(budgets.size());
  ScheduleProblem at = problem;
  JointOptions seeded = options;
  for (size_t i : by_budget) {
    at.budget_bytes = budgets[i];
    outcomes[i] = solve_joint(at, seeded);
    if (!outcomes[i].sequence.empty()) seeded.remat.starts = {runs_of(outcomes[i].sequence)};
  }
  for (size_t k = by_budget.size(); k-- > 1;) {
    const RematOutcome& less = outcomes[by_budget[k]];
    RematOutcome& more = outcomes[by_budget[k - 1]];
    if (!as_good(less, more)) continue;
    const double bound = more.lower_bound_seconds;
    more = less;
    more.lower_bound_seconds = bound;
    more.status = more.seconds <= bound * (1 + 1e-9) ? SolveStatus::kOptimal : SolveStatus::kLimit;
  }
  return outcomes;
}

}  // namespace lowtide::remat
