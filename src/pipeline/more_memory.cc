#include "pipeline/more_memory.h"

#include <algorithm>

#include "plan/sequence_simulator.h"
#include "remat/bounds/time_bound.h"
#include "remat/joint.h"

namespace lowtide::pipeline {
namespace {

constexpr int64_t kPart = 10;  // of the budget that is added: what is reported

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct MoreMemoryTuning {
  int64_t work_share = 10;  // of the work of a plan
};
constexpr MoreMemoryTuning kMoreMemory;

// Of every schedule within the budget, with transfers where they are allowed.
double least_seconds(plan::ScheduleProblem problem, int64_t budget_bytes, bool transfers,
                     std::span<const plan::SchedOpId> order, const Limits& limits) {
  problem.budget_bytes = budget_bytes;
  if (!transfers) plan::forbid_transfers(problem);
  return remat::time_bound(problem, {.order = order, .several = false, .limits = limits})
      .lower_bound_seconds;
}

}  // namespace

MoreMemory with_more_memory(const analysis::ScheduleView& view, const OptimizeOptions& options,
                            std::span<const plan::SchedOpId> order, const Solution& solution,
                            const Solution& unlimited) {
  MoreMemory more;
  more.budget_bytes = *options.budget_bytes + *options.budget_bytes / kPart;
  more.seconds = solution.profile.seconds;
  more.lower_bound_seconds =
      least_seconds(view.problem, more.budget_bytes, options.schedule.transfers, order,
                    {.cancel = options.schedule.remat.limits.cancel});
  if (unlimited.arena_bytes <= more.budget_bytes) {
    more.seconds = std::min(more.seconds, unlimited.profile.seconds);
    return more;
  }
  plan::ScheduleProblem problem = view.problem;
  problem.budget_bytes =
      more.budget_bytes - std::max<int64_t>(0, solution.arena_bytes - solution.profile.peak_bytes);
  remat::JointOptions search = options.schedule;
  search.remat.limits.max_units =
      std::max<int64_t>(1, search.remat.limits.max_units / kMoreMemory.work_share);
  search.swap.limits.max_units =
      std::max<int64_t>(1, search.swap.limits.max_units / kMoreMemory.work_share);
  search.remat.progress = {};
  search.remat.starts.clear();
  auto& start = search.remat.starts.emplace_back();
  for (const plan::SchedAction& action : solution.sequence)
    if (action.kind == plan::SchedAction::Kind::kRun) start.push_back(action);
  const remat::RematOutcome outcome = remat::solve_joint(problem, search);
  if (!outcome.sequence.empty()) more.seconds = std::min(more.seconds, outcome.seconds);
  return more;
}

}  // namespace lowtide::pipeline
