// What to say of a class of axes that is not that of samples, that a split cuts little of, or that
// it cannot cut: which op stands in the way, by its name and dimension.
//
// Tests: tests/split_test.cc.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "fission/classes.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// `step`: before it is cut. Where the largest class is not that of samples (of a few large images
// it is their rows), what it is. Where ops of it make less than half of the bytes and others need
// all of its dimension at once, which, and how many. Else nothing.
Result<std::vector<std::string>> notes_of_split(const ir::Graph& step,
                                                const OptimizeOptions& options);

// Error: kInput, where no two ops can be cut alike, or one of the largest class has fewer elements
// than the split has parts.
Status check_parts(const ir::Graph& step, const std::vector<fission::AxisClass>& classes,
                   const OptimizeOptions& options);

}  // namespace lowtide::pipeline
