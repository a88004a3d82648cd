// From sums in any order (analysis/sums.h) to the chains that run. A plan's ops are those of a
// graph, and there a sum is a chain of accumulators; so once a schedule is found, the chain is made
// anew in its order (rewrite/sums.h) and everything that was found is said in its terms.
//
// What is claimed of a plan is claimed of the chained graph, of which the verifier sees nothing
// else. Each of its schedules in which nothing runs again is one of the sums in any order, so
// bounds on those hold here, too; for reruns there is relaxed_sums (analysis/schedule_view.h).
// Tests: tests/sums_test.cc.
#pragma once

#include "base/result.h"
#include "pipeline/optimize.h"
#include "pipeline/prepare.h"
#include "pipeline/solution.h"

namespace lowtide::pipeline {

// `solution` is one of ready.view. The result has the chained graph, its costs and its problem; as
// `unlimited` that solution, at the same addresses; and as `order` a proof for the chained graph,
// with the status, bound and work of the search that found the order. A first contribution needs no
// accumulator, so seconds and scratch may be less than the solution's, never more. Errors:
// kInternal where the two problems differ in more than that, and as of op_costs.
Result<Prepared> settle_sums(const Prepared& ready, const Solution& solution,
                             const OptimizeOptions& options);

}  // namespace lowtide::pipeline
