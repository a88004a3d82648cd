// What every schedule needs in whatever parts a split to be chosen may run a step: what is resident
// and cannot be elsewhere, and the largest of the parts that are left when every op runs in as many
// as it can: along any two axes that the op table lets be cut, also those that no search tries, and
// attention in any number of blocks that is tried (query_blocks.h). Quick: no plan is made.
//
// The op that sets it and its parts go into the plan's claims; the verifier recomputes them
// (verify/parts_floor.h).
//
// Tests: tests/split_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"
#include "plan/plan.h"

namespace lowtide::pipeline {

// `options.split` is not looked at. Without an op it is that of the residents, where some op is cut
// already or the step has no products, or that of the step in one part, where nothing can be cut.
// Errors: as of least_bytes.
Result<plan::PartsFloor> floor_in_any_parts(const ir::Graph& forward,
                                            const OptimizeOptions& options);

// Its bytes alone.
Result<int64_t> least_bytes_in_parts(const ir::Graph& forward, const OptimizeOptions& options);

// "in whatever parts every schedule needs at least 4096 bytes (4.00 KiB): ..."
std::string say(const plan::PartsFloor& floor);

// Error: kInfeasible, where the options' budget is below the options' floor of any parts, and an op
// sets it.
Status check_parts_floor(const OptimizeOptions& options);

}  // namespace lowtide::pipeline
