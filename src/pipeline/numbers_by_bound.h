// In how many parts a step is worth a plan where parts wait for each other (fission/passes.h), as
// those of a batch wait for its statistics.
//
// The scaled problem of one part (fission/scale.h) says little there. What is made anew is used
// part by part, which it does not count, and where kernels choose layouts, each part converts them,
// which it does not see: of ResNet-50 in 8 parts it said 9 % less than what is proven of 8 parts.
// So numbers are ranked by a bound on the step that really runs in so many parts (least_time.h): a
// graph, an order by list schedules and a cut, but no search. What searches come to is above such
// bounds by nearly the same share in all numbers, so the best plan says what others would take.
//
// Tests: tests/norm_in_parts_test.cc.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// Even parts, the least bound first; a candidate's seconds are its bound. Those of which nothing
// fits are left out. Empty where parts do not wait. `step` is the graph to be cut (step_to_cut),
// and `options` have a budget.
Result<std::vector<Candidate>> numbers_by_bound(const ir::Graph& forward, const ir::Graph& step,
                                                const OptimizeOptions& options);

}  // namespace lowtide::pipeline
