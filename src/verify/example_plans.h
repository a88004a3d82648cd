// Right plans for tests, made without any planner: random graphs of real ops, any valid order,
// first-fit addresses, in-place reuse by the toss of a coin, and a certificate found by trying all
// states.
#pragma once

#include "base/rng.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::verify {

// About `ops` ops over parameters and inputs: elementwise, products, views, updates, several
// outputs, workspaces, control edges.
ir::Graph random_graph(Rng& rng, int ops);

struct LowerOptions {
  bool certificate = true;  // needs few ops
  bool plain = false;  // no chance: program order, every reuse taken, workspace for Concat only
};
// A right plan for the graph.
plan::Plan lower(const ir::Graph& graph, Rng& rng, const LowerOptions& options = {});

}  // namespace lowtide::verify
