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
  bool plain = false;  // no chance: the given order, every reuse taken, workspace for Concat only
};
// A right plan for the graph.
plan::Plan lower(const ir::Graph& graph, Rng& rng, const LowerOptions& options = {});

// The plan with up to `tries` right changes that the toss of a coin chooses: a storage moved out
// while nobody reads it, one that is freed and made again, a resident with its home in the slow
// tier. Claims follow. `reruns` and `moves`, if given, count.
plan::Plan rerun_and_move(const plan::Plan& plan, Rng& rng, int tries, int* reruns = nullptr,
                          int* moves = nullptr);

// Sets what is claimed of the steps to what verify() finds; bounds as far as they go then.
void claim_what_is_found(plan::Plan& plan);

}  // namespace lowtide::verify
