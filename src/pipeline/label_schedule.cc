#include "pipeline/label_schedule.h"

#include <algorithm>
#include <utility>

#include "plan/schedule_problem.h"
#include "remat/remat.h"
#include "remat/transfers/swap.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedAction;
using plan::SchedOpId;

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LabelScheduleTuning {
  // Of what is too much: the part of it that transfers are to bring out, of one try after another
  // behind that of reruns alone, which have the rest. All of it: nothing runs again.
  double moved[4] = {0.1, 0.25, 0.5, 1};
  int64_t share = 5;  // of the work: the part of it for each of these tries
};
constexpr LabelScheduleTuning kSchedule;

class LabelScheduler {
 public:
  LabelScheduler(const LabelProblem& problem, const PosedLabels& posed,
                 const OptimizeOptions& options, const LabelScheduleOptions& how)
      : posed_(posed), options_(options), how_(how), problem_(posed.scaled.problem) {
    for (const StepRuns& start : how.starts)
      starts_.push_back(run_actions(problem.runs_in(posed.scaled, start)));
  }

  // None within the budget.
  std::optional<LabelSchedule> recomputed() {
    const remat::RematOutcome found = runs_within(budget(), how_.limits.max_units);
    if (found.sequence.empty()) return std::nullopt;
    starts_.push_back(found.sequence);
    return schedule(found.sequence, found.seconds, found.peak_bytes);
  }

  // A line search between reruns alone and transfers alone (remat/joint.h), from the first on, as
  // long as the step gets shorter: what takes too long for the link is not tried.
  std::optional<LabelSchedule> recomputed_or_moved() {
    std::optional<LabelSchedule> best;
    if (options_.schedule.recompute) best = recomputed();
    for (const double moved : kSchedule.moved) {
      std::optional<LabelSchedule> made = moved_in_part(moved);
      if (best && (!made || made->seconds >= best->seconds)) break;
      if (made) best = std::move(made);
    }
    return best;
  }

 private:
  int64_t budget() const { return *problem_.budget_bytes; }

  static std::vector<SchedAction> run_actions(const std::vector<SchedOpId>& ops) {
    std::vector<SchedAction> runs;
    for (const SchedOpId op : ops) runs.push_back(SchedAction::run(op));
    return runs;
  }

  std::optional<LabelSchedule> moved_in_part(double moved) {
    const bool is_all = moved == 1;
    if (!is_all && !options_.schedule.recompute) return std::nullopt;
    std::vector<SchedAction> runs = run_actions(posed_.order.sequence);
    if (!is_all) {
      const auto over = static_cast<double>(posed_.order.peak_bytes - budget());
      runs = runs_within(budget() + static_cast<int64_t>(moved * over),
                         std::max<int64_t>(1, how_.limits.max_units / kSchedule.share))
                 .sequence;
      if (runs.empty()) return std::nullopt;
      starts_.push_back(runs);
    }
    return with_transfers(runs);
  }

  remat::RematOutcome runs_within(int64_t budget_bytes, int64_t units) {
    remat::RematOptions remat;
    remat.limits = how_.limits.with_units(units);
    remat.cut_bound = remat.exact_small = false;
    if (!starts_.empty()) remat.least_peak_order = posed_.order.sequence;
    remat.mend_starts = !starts_.empty();
    remat.all_starts = how_.all_starts;
    remat.reorder = options_.schedule.remat.reorder;
    remat.starts = starts_;
    plan::ScheduleProblem within = problem_;
    plan::forbid_transfers(within);
    within.budget_bytes = budget_bytes;
    return remat::solve(within, remat);
  }

  // None: they do not suffice.
  std::optional<LabelSchedule> with_transfers(const std::vector<SchedAction>& runs) const {
    remat::SwapOptions swap;
    swap.spans = options_.schedule.swap.spans;
    swap.local_search = false;
    swap.tidy_units = 0;
    swap.limits = how_.limits;
    const remat::SwapOutcome found = remat::add_transfers(problem_, runs, swap);
    if (found.sequence.empty()) return std::nullopt;
    return schedule(found.sequence, found.seconds, found.peak_bytes);
  }

  LabelSchedule schedule(const std::vector<SchedAction>& sequence, double seconds,
                         int64_t peak_bytes) const {
    std::vector<SchedOpId> runs;
    for (const SchedAction& run : plan::runs_of(sequence)) runs.push_back(run.op);
    return {LabelProblem::of_step(runs, posed_.scaled), seconds, peak_bytes};
  }

  const PosedLabels& posed_;
  const OptimizeOptions& options_;
  const LabelScheduleOptions& how_;
  const plan::ScheduleProblem& problem_;
  std::vector<std::vector<SchedAction>> starts_;
};

}  // namespace

PosedLabels pose(const LabelProblem& problem, const CutStep& cut, int64_t budget_bytes) {
  PosedLabels posed{.scaled = problem.scaled(cut, budget_bytes), .once_seconds = cut.once_seconds};
  posed.order = problem.best_order(posed.scaled.problem);
  return posed;
}

std::optional<LabelSchedule> schedule_within(const LabelProblem& problem, const PosedLabels& posed,
                                             const OptimizeOptions& options,
                                             const LabelScheduleOptions& how) {
  const plan::ScheduleProblem& within = posed.scaled.problem;
  if (posed.order.peak_bytes <= *within.budget_bytes)
    return LabelSchedule{LabelProblem::of_step(posed.order.sequence, posed.scaled),
                         posed.once_seconds, posed.order.peak_bytes};
  LabelScheduler scheduler(problem, posed, options, how);
  if (within.link) return scheduler.recomputed_or_moved();
  return options.schedule.recompute ? scheduler.recomputed() : std::nullopt;
}

}  // namespace lowtide::pipeline
