#include "pipeline/query_blocks.h"

#include "pipeline/least_time.h"
#include "rewrite/query_blocks.h"

namespace lowtide::pipeline {

Result<std::optional<int64_t>> blocks_worth_a_plan(const ir::Graph& forward,
                                                   const OptimizeOptions& options, double seconds) {
  std::optional<int64_t> best;
  OptimizeOptions in_blocks = options;
  in_blocks.split = {};
  for (int64_t blocks = 2; blocks <= kQueryBlocks.most_blocks; blocks *= 2) {
    if (options.schedule.remat.limits.cancelled()) break;
    LT_ASSIGN(const rewrite::QueryBlocksReport report,
              rewrite::attention_in_blocks(forward, blocks));
    if (report.ops == 0) break;
    in_blocks.query_blocks = blocks;
    LT_ASSIGN(const std::optional<double> bound, least_seconds(forward, in_blocks));
    if (!bound || *bound >= seconds) continue;
    best = blocks;
    seconds = *bound;
  }
  return best;
}

}  // namespace lowtide::pipeline
