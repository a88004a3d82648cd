// In how many parts a step runs within a budget: a sweep over the number of parts of its largest
// axis class (fission/classes.h; samples, as a rule: micro-batches). Fewer parts take less time,
// more need less memory, and recompute fills what is left between.
//
// Each number gets a short search, from one part upwards, until one fits without recomputing
// anything or the ops alone take longer than what was found (parts only add time). The best number
// is then planned with all of the work. What is claimed of the plan, bounds and floor, speaks of
// the step in that many parts.
//
// Tests: tests/split_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// `options.split` is not looked at. Without a budget: in one part. Errors: as of optimize; where no
// number of parts keeps the budget, that of the most parts, naming the number; kInfeasible only if
// each number tried is infeasible.
Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options);

// What every schedule in any of the numbers of parts needs: the least of their floors. Errors: as of
// least_bytes.
Result<int64_t> least_bytes_in_parts(const ir::Graph& forward, const OptimizeOptions& options);

}  // namespace lowtide::pipeline
