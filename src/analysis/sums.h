// Sums whose contributions may come in any order.
//
// A graph says a sum as a chain: the first op makes it, each further one has what is there as its
// accumulator (ops/op_table.h) and makes the next version.
//
//     s1 = MatMul(a, b)        s2 = MatMul(c, d, -, s1)        s3 = GatherGrad(e, i, s2)
//
// Addition commutes, so the chain's order is one of many, and which is best depends on the rest of
// the step: of a weight used at both ends of a network, either end's contribution may be the one to
// come late. A chain is a sum in any order where nobody sees the versions between, and where the
// first op could also add into what is there (otherwise it stays the first).
//
// Only gradients that updates read are such sums here. Whoever contributes runs once (a second run
// would add again); gradients of parameters stay anyway, but the rest can be recomputed, and would
// not be any more. Their contributions also lie close together, so their order matters little.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace lowtide::analysis {

struct Contribution {
  ir::OpId op;
  size_t output = 0;  // of the op: the version that it makes
  size_t input = 0;   // where its accumulator stands, or would
};

struct Sum {
  // In the order of the graph, at least two that commute.
  std::vector<Contribution> contributions;
  bool first_is_fixed = false;  // the first of them cannot add, so it stays the first
};

// All of them, by their first op and its output; linear in the graph. No version is a piece of a
// whole, and no op contributes twice to one sum.
std::vector<Sum> find_sums(const ir::Graph& graph);

}  // namespace lowtide::analysis
