// Products that share an operand. MatMuls or Convs of one input with several weights are one with
// the weights joined, whose result is cut (Q, K and V of attention, the branches of an inception);
// those of several inputs with one weight are one with the inputs joined. And the reverse: a
// product that only slices read, all cut along one dimension, is one for each slice, of the operand
// that was cut likewise; columns that nobody reads are not computed then.
//
// A *way* is a dimension of one operand that is a dimension of the result and nothing else: m and n
// of a MatMul, samples and output channels of a Conv. Products can be joined along a way where all
// else about them is equal: kind, attributes, the other operands and dimensions.
//
// Joining weights copies them in every step, and cutting copies results where a slice is no view.
// So either is done only where the predicted seconds of all ops that come are less than of those
// that go; what the backward pass gains or loses is not counted, and nothing is promised of memory.
//
// No cycle arises: the joined op stands where the first of them stood, and what a later one needs
// is moved before it, unless it depends on a result of those that are joined; then the later one
// stays out. Sums are taken in the same order, but a kernel may round another shape otherwise.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "rewrite/product_edit.h"

namespace lowtide::rewrite {

// All dims must be constant. A graph with wholes (Join) is given back as it was. Error: kInput, and
// those of `seconds`.
Result<SharedOperandReport> join_products(const ir::Graph& graph, const OpSeconds& seconds);
Result<SharedOperandReport> part_products(const ir::Graph& graph, const OpSeconds& seconds);

}  // namespace lowtide::rewrite
