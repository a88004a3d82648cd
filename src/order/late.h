// Late ops: ops that no order gains by running before they must.
//
// A layout conversion of a weight waits for nothing, frees nothing and has a reader far away. Every
// such op is ready from the start; tried early, each one doubles a search, and a greedy rule that
// likes small growth runs them all first and holds them for the whole step. They need not be tried:
//
//   late(v)   v has no predecessors, some successor, and for each successor c
//             dead(v) <= transient(c) - most c can ever reuse,
//             where dead(v) = transient(v) - made(v): workspace and outputs that nobody reads
//
// Claim: every order can be changed, without raising its peak, so that each late op runs in the
// block of late ops immediately before its first successor. Proof: keep all other ops as they are
// (a successor of a late op has a predecessor, hence is not late) and move the late ones. Arcs hold
// still, for a late op has none that enter. When another op c runs, the executed set is what it was
// less some late ops D, none of which has a successor in it, so live falls by exactly what D made.
// D reads nothing, so no value gets a reader that is still to run, and c reuses what it did. When a
// late op v of c's block runs, from the set Q, then present are
//   live(Q) + made(v) + dead(v) <= live(all of the block) + transient(c) - reuse of c,
// which is what c's own step costs. The peak is therefore that of the other ops alone.
//
// So a prefix (order/prefix.h) never offers a late op: running an op first runs its pending late
// predecessors, and the op's growth and peak are those of the whole block. Safe moves stay valid
// (order/safe_moves.h), with a closed set Q that may hold late ops of the run besides.
#pragma once

#include "order/order_graph.h"

namespace lowtide::order {

// One flag per op. Needs all fields of `graph` but those about late ops.
IdVector<OpId, char> find_late_ops(const OrderGraph& graph);

}  // namespace lowtide::order
