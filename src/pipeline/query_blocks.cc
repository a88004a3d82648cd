#include "pipeline/query_blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pipeline/prepare.h"
#include "remat/bounds/closure_cut.h"
#include "rewrite/query_blocks.h"

namespace lowtide::pipeline {
namespace {

// At least so many seconds in so many blocks; none: nothing within the budget.
Result<std::optional<double>> bound_of(const ir::Graph& forward, const OptimizeOptions& options,
                                       int64_t blocks) {
  OptimizeOptions in_blocks = options;
  in_blocks.query_blocks = blocks;
  in_blocks.split = {};
  LT_ASSIGN(const Prepared ready, pose(forward, in_blocks));
  plan::ScheduleProblem problem = ready.view.problem;
  problem.budget_bytes = options.budget_bytes;
  if (!options.schedule.transfers) plan::forbid_transfers(problem);
  order::OrderOptions quick = options.order;
  quick.exact_search = quick.beam = quick.cut_bound = false;
  quick.random_restarts = 0;
  quick.limits.max_units = kQueryBlocks.order_units;
  const plan::ScheduleOutcome order = order::solve(problem, quick);
  double once = 0;
  for (const plan::SchedOp& op : problem.ops) once += op.seconds;
  if (!order.sequence.empty() && order.peak_bytes <= *options.budget_bytes)
    return std::optional(once);
  const remat::CutBoundResult cut = remat::closure_cut(
      problem, {.order = order.sequence,
                .limits = options.schedule.remat.limits.with_units(kQueryBlocks.cut_units)});
  if (!cut.feasible) return std::optional<double>();
  return std::optional(std::max(once, cut.lower_bound_seconds));
}

}  // namespace

Result<std::optional<int64_t>> blocks_worth_a_plan(const ir::Graph& forward,
                                                   const OptimizeOptions& options, double seconds) {
  std::optional<int64_t> best;
  for (int64_t blocks = 2; blocks <= kQueryBlocks.most_blocks; blocks *= 2) {
    if (options.schedule.remat.limits.cancelled()) break;
    LT_ASSIGN(const rewrite::QueryBlocksReport report,
              rewrite::attention_in_blocks(forward, blocks));
    if (report.ops == 0) break;
    LT_ASSIGN(const std::optional<double> bound, bound_of(forward, options, blocks));
    if (!bound || *bound >= seconds) continue;
    best = blocks;
    seconds = *bound;
  }
  return best;
}

}  // namespace lowtide::pipeline
