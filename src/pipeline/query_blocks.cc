#include "pipeline/query_blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pipeline/least_time.h"
#include "pipeline/prepare.h"
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
  return least_seconds(ready.view.problem, options);
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
