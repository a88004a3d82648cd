// The least memory within a time (MAGIS's other mode): bisection over budgets, from what every
// schedule needs to the arena that needs no budget. A plan that takes too long says nothing of
// larger budgets, and one in time nothing of smaller ones, but time falls with memory nearly
// always, and the plan that is handed out is in time whatever the way to it.
//
// Where parts are to be chosen it begins in one part, which takes seconds: that is what there is if
// time ends. A budget in parts that cannot be kept in time costs many trials, so the bisection of
// those is one of estimates (label_search.h), and plans are tried around what it comes to.
//
// Each budget gets a share of the work; the least one that was kept in time is planned with all of
// it. Where some had no schedule at all, the smallest arena that a refusal would name is tried.
//
// Tests: least_memory_test.cc.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// The plan with the least arena found whose step takes at most (1 + slowdown) times as long as each
// op once of the step in one part; in the parts that the options give, if they do. Its budget is
// its arena, or a little above. `options` have none; `slowdown` >= 0. Errors: as of optimize;
// kInfeasible, where the given parts take longer by themselves.
Result<Optimized> least_memory(const ir::Graph& forward, const OptimizeOptions& options,
                               double slowdown);

}  // namespace lowtide::pipeline
