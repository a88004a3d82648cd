#include "pipeline/label_schedule.h"

#include <utility>

#include "plan/schedule_problem.h"
#include "remat/few_tries.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedAction;
using plan::SchedOpId;

remat::JointOptions search_options(const LabelProblem& problem, const PosedLabels& posed,
                                   const OptimizeOptions& options,
                                   const LabelScheduleOptions& how) {
  remat::JointOptions made;
  made.recompute = options.schedule.recompute;
  made.transfers = options.schedule.transfers;
  made.swap.spans = options.schedule.swap.spans;
  made.swap.de_swap = options.schedule.swap.de_swap;
  remat::RematOptions& remat = made.remat;
  remat.limits = how.limits;
  remat.cut_bound = remat.exact_small = false;
  if (!how.starts.empty() || posed.scaled.problem.link)
    remat.least_peak_order = posed.order.sequence;
  remat.mend_starts = !how.starts.empty();
  remat.all_starts = how.all_starts;
  remat.known_starts = how.known_starts;
  remat.reorder = options.schedule.remat.reorder;
  remat.de_remat = options.schedule.remat.de_remat;
  for (const StepRuns& start : how.starts) {
    std::vector<SchedAction>& runs = remat.starts.emplace_back();
    for (const SchedOpId op : problem.runs_in(posed.scaled, start))
      runs.push_back(SchedAction::run(op));
  }
  return made;
}

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
  if (!options.schedule.recompute && !within.link) return std::nullopt;
  const remat::JointOptions search = search_options(problem, posed, options, how);
  const remat::RematOutcome found =
      within.link ? remat::solve_in_few_tries(within, search) : remat::solve(within, search.remat);
  if (found.sequence.empty()) return std::nullopt;
  std::vector<SchedOpId> runs;
  for (const SchedAction& run : plan::runs_of(found.sequence)) runs.push_back(run.op);
  return LabelSchedule{LabelProblem::of_step(runs, posed.scaled), found.seconds, found.peak_bytes};
}

}  // namespace lowtide::pipeline
