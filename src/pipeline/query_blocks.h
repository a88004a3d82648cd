// In how many blocks of queries attention is to run (rewrite/query_blocks.h) where a budget is to
// be kept by parts and nobody has said a number.
//
// Scores grow with the square of the sequence, so in one block they are what sets the peak of long
// sequences, and in many blocks kernels are small. Which number is worth a plan is told by a bound
// on the step in so many blocks (least_time.h), without a search.
//
// Tests: tests/split_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct QueryBlocksTuning {
  int64_t most_blocks = 64;  // that are tried; with fewer rows kernels are small
};
inline constexpr QueryBlocksTuning kQueryBlocks;

// A number of blocks, a power of two, whose bound is below `seconds`, the least of all; none: no
// attention is found, or none promises so much. `options` have a budget. Error: as optimize, but
// none about budgets.
Result<std::optional<int64_t>> blocks_worth_a_plan(const ir::Graph& forward,
                                                   const OptimizeOptions& options, double seconds);

}  // namespace lowtide::pipeline
