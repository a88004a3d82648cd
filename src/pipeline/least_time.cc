#include "pipeline/least_time.h"

#include <algorithm>
#include <utility>

#include "pipeline/prepare.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LeastTimeTuning {
  int64_t cut_units = 20'000'000;
  int64_t order_units = 2'000'000;
};
constexpr LeastTimeTuning kLeastTime;

}  // namespace

std::optional<double> least_seconds(plan::ScheduleProblem problem, const OptimizeOptions& options) {
  problem.budget_bytes = options.budget_bytes;
  if (!options.schedule.transfers) plan::forbid_transfers(problem);
  order::OrderOptions quick = options.order;
  quick.exact_search = quick.beam = quick.cut_bound = false;
  quick.random_restarts = 0;
  quick.limits.max_units = kLeastTime.order_units;
  const plan::ScheduleOutcome order = order::solve(problem, quick);
  double once = 0;
  for (const plan::SchedOp& op : problem.ops) once += op.seconds;
  if (!order.sequence.empty() && order.peak_bytes <= *options.budget_bytes) return once;
  const remat::CutBoundResult cut = remat::closure_cut(
      problem, {.order = order.sequence,
                .limits = options.schedule.remat.limits.with_units(kLeastTime.cut_units)});
  if (!cut.feasible) return std::nullopt;
  return std::max(once, cut.lower_bound_seconds);
}

Result<std::optional<double>> least_seconds(const ir::Graph& forward,
                                            const OptimizeOptions& options) {
  LT_ASSIGN(const Prepared ready, pose(forward, options));
  return least_seconds(analysis::relaxed_sums(ready.view), options);
}

}  // namespace lowtide::pipeline
