// Late ops, a dominance rule of our own: ops that no order gains by running before they must.
//
// A layout conversion of a weight waits for nothing, frees nothing and has a reader far away. Every
// such op is ready from the start; tried early, each one doubles a search, and a greedy rule that
// likes small growth runs them all first and holds them for the whole step. They need not be tried.
//
// A late tree is an op r, its root, with all its ancestors, each of which has one successor, and
// that in the tree (a weight is cut, then cast, then converted). It runs in one go, in the incoming
// order. Let its excess be its own peak less what it leaves. For each successor c of r, all of them
// outside trees,
//
//     excess <= transient(c) - most c can ever reuse
//
// Claim: every order can be changed, without raising its peak, so that each tree runs in one go in
// the bundle of trees immediately before the first successor of its root. Proof: keep all other ops
// as they are and move the trees. Arcs hold still, for none enters a tree. When another op c runs,
// the executed set is what it was less some tree ops D, none of which has a successor left in it.
// So live falls by what D held, or stays; nothing outside the trees reads what D reads, so no value
// that is left gets another reader that is still to run, and c reuses what it did. When a tree of
// c's bundle runs, from the set Q, then at most
//
//     live(Q) + left by the tree + excess
//         <= live(all of the bundle) + transient(c) - reuse of c
//
// bytes are present, which is what c's own step costs. The peak is that of the other ops alone.
//
// So a prefix (order/prefix.h) never offers a late op: running an op first runs its pending late
// trees, and the op's growth and peak are those of the whole bundle. Safe moves stay valid
// (order/safe_moves.h), with a closed set Q that may hold late ops of the run besides.
#pragma once

#include "order/order_graph.h"

namespace lowtide::order {

// For each late op the root of its tree; invalid for other ops. Needs all fields of `graph` but
// those about late ops. Trees are kept small; what would make one larger is left to the search.
IdVector<OpId, OpId> find_late_roots(const OrderGraph& graph);

// Fills the fields about late ops.
void mark_late_ops(OrderGraph& graph);

}  // namespace lowtide::order
