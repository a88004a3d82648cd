// Which kernels a step needs in so many parts: what has to be timed for a search over parts
// (label_search.h) to know what they take. They come from the graph that would be planned, in its
// layouts, with and without the accumulators of sums.
//
// The search may ask for any number of parts, but kernels only differ by the sizes of parts: all
// numbers whose largest part is the same need about the same kernels, so one of them stands for
// them. Of 64 samples 16 numbers stand for 64.
//
// Tests: tests/part_times_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"
#include "plan/op_desc.h"

namespace lowtide::pipeline {

struct PartKernel {
  plan::OpDesc op;
  int64_t runs = 0;  // in a step, each op once; 0: only where sums come in another order
};

// Each kernel once, in the order of its key. Ops that carry their own cost are none. `parts` >= 1;
// the options have kernels, their split is not looked at. Error: as of pose (prepare.h).
Result<std::vector<PartKernel>> kernels_in_parts(const ir::Graph& forward,
                                                 const OptimizeOptions& options, int64_t parts);

// Ascending, from 1 to `most` or the least extent of the largest axis class: the least number of
// parts for each size of the largest part.
Result<std::vector<int64_t>> numbers_of_parts(const ir::Graph& forward,
                                              const OptimizeOptions& options, int64_t most);

}  // namespace lowtide::pipeline
