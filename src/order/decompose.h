// Exact decomposition, by connected and strongly connected components: parts that may run one after
// another without loss. The proof is our own.
//
// If a closed set S leaves nothing resident, live(S) = 0, then some best order runs all of S first:
// from any order take the runs of S, then the rest. Submodularity gives live(P intersect S) <=
// live(P) for every prefix P, and what an op of S reuses in place is decided by readers that are
// all in S. The peak is then the maximum over the parts.
//
// Such sets are exactly the predecessor-closed unions of clusters, where a cluster holds together
// the producer and all readers of each value with bytes, and clusters on a common cycle of waiting
// are one. Weakly connected parts are the simplest case. A cluster that makes an output of the step
// leaves something behind; it, everything that must wait for it, and all other such clusters form
// the last part and are ordered jointly.
#pragma once

#include <vector>

#include "order/order_graph.h"

namespace lowtide::order {

// The parts in the order in which they run. Every op is in exactly one; only the last may leave
// bytes behind.
std::vector<OrderGraph> decompose(const plan::ScheduleProblem& problem);

}  // namespace lowtide::order
