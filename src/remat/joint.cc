#include "remat/joint.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/work.h"
#include "plan/sequence_simulator.h"
#include "remat/closure_cut.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;
using plan::SolveStatus;

// Of the work: for the order of least peak, and for recompute alone. Other tries share the rest.
constexpr double kShareOfOrder = 0.1, kShareOfRecompute = 0.4;

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
  // The retention search without transfers, within a share of the work that is left.
  std::vector<SchedAction> runs_within(std::optional<int64_t> inner, double share) {
    without_link_.budget_bytes = inner;
    RematOptions options = options_.remat;
    options.max_units =
        std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(units_left()) * share));
    options.cut_bound = false;
    options.max_seconds = std::max(0.0, options.max_seconds - clock_.seconds());
    options.progress = [this](const RematProgress&) { report(); };
    for (const Try& t : tries_) options.starts.push_back(t.runs);
    const RematOutcome outcome = remat::solve(without_link_, options);
    count(outcome.work);
    result_.edits += outcome.edits;
    result_.cut_short |= outcome.cut_short;
    return outcome.sequence;
  }

  const Try& attempt(int64_t inner, std::vector<SchedAction> runs) {
    Try t{inner, std::move(runs), {}};
    if (!t.runs.empty()) {
      SwapOptions swap = options_.swap;
      swap.max_units = std::clamp<int64_t>(units_left() / 8, 1, swap.max_units);
      swap.max_seconds =
          std::min(swap.max_seconds, std::max(0.0, options_.remat.max_seconds - clock_.seconds()));
      t.swap = add_transfers(problem_, t.runs, swap);
      count(t.swap.work);
    }
    const auto at =
        std::lower_bound(tries_.begin(), tries_.end(), inner,
                         [](const Try& other, int64_t bytes) { return other.inner_bytes < bytes; });
    const Try& inserted = *tries_.insert(at, std::move(t));
    report();
    return inserted;
  }

  int64_t units_left() const {
    return std::max<int64_t>(0, options_.remat.max_units - result_.work.units);
  }

  // What a try found is not known to fit before transfers are added.
  void report() const {
    if (!options_.remat.progress) return;
    RematProgress progress;
    progress.lower_bound_seconds = result_.lower_bound_seconds;
    progress.budget_bytes = *problem_.budget_bytes;
    if (!tries_.empty() && !tries_[best_try()].swap.sequence.empty()) {
      progress.seconds = tries_[best_try()].swap.seconds;
      progress.peak_bytes = tries_[best_try()].swap.peak_bytes;
    }
    progress.share =
        1 - static_cast<double>(units_left()) / static_cast<double>(options_.remat.max_units);
    options_.remat.progress(progress);
  }

  void swap_alone() {
    std::vector<SchedAction> runs = runs_within(std::nullopt, kShareOfOrder);
    const auto profile = plan::simulate_sequence(problem_, runs);
    LT_CHECK(profile.has_value(), "the unlimited order is no schedule");
    unlimited_ = profile->peak_bytes;
    attempt(std::max(unlimited_, *problem_.budget_bytes), std::move(runs));
  }

  // Tries the real budget, then halves the wider of the two intervals beside the best.
  void narrow_down() {
    const int64_t budget = *problem_.budget_bytes;
    if (unlimited_ <= budget) return;
    attempt(budget, runs_within(budget, kShareOfRecompute));
    for (int i = 2; i < options_.tries && !done() && !stopped(); ++i) {
      const size_t best = best_try();
      int64_t from = 0, to = 0;
      for (size_t side : {best, best + 1}) {
        if (side == 0 || side >= tries_.size()) continue;
        const int64_t low = tries_[side - 1].inner_bytes, high = tries_[side].inner_bytes;
        if (high - low > to - from) from = low, to = high;
      }
      const int64_t inner = from + (to - from) / 2;
      if (inner == from || inner == to) return;
      attempt(inner, runs_within(inner, 1.0 / (options_.tries - i)));
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
  bool stopped() const {
    return clock_.seconds() > options_.remat.max_seconds ||
           (options_.remat.cancel != nullptr && options_.remat.cancel->load());
  }

  void finish() {
    const SwapOutcome& best = tries_[best_try()].swap;
    result_.sequence = best.sequence;
    result_.peak_bytes = best.peak_bytes;
    result_.seconds = best.seconds;
    result_.cut_short |= stopped();
    result_.status = done()                                          ? SolveStatus::kOptimal
                     : result_.cut_short || result_.sequence.empty() ? SolveStatus::kLimit
                                                                     : SolveStatus::kFeasible;
    result_.work.seconds = clock_.seconds();
    if (!result_.sequence.empty()) return;
    for (const Try& t : tries_)
      if (t.swap.crowded &&
          (!result_.crowded || t.swap.crowded->needed_bytes < result_.crowded->needed_bytes))
        result_.crowded = t.swap.crowded;
  }

  void count(const plan::SolveWork& work) {
    result_.work.units += work.units;
    result_.work.timed_out |= work.timed_out;
  }

  const ScheduleProblem& problem_;
  const JointOptions& options_;
  ScheduleProblem without_link_;
  std::vector<Try> tries_;  // by inner budget
  int64_t unlimited_ = 0;
  WorkBudget clock_{std::numeric_limits<int64_t>::max()};
  RematOutcome result_;
};

}  // namespace

RematOutcome solve_joint(const ScheduleProblem& problem, const JointOptions& options) {
  if (problem.budget_bytes && problem.link && options.transfers)
    return Joint(problem, options).solve();
  ScheduleProblem runs_only = problem;
  plan::forbid_transfers(runs_only);
  if (!options.recompute)
    for (plan::SchedOp& op : runs_only.ops) op.may_rerun = false;
  return solve(runs_only, options.remat);
}

}  // namespace lowtide::remat
