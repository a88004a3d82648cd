// Reverse mode: appends to a graph the ops that compute the gradient of a scalar value (Griewank
// and Walther, "Evaluating Derivatives", chapter 3, on a graph instead of a tape).
//
//   y = MatMul(x, w)        append_gradients(graph, loss, {w}) adds
//   loss = MseLoss(y, t)      dy = MseLossGrad(y, t, scale 1)
//                             grad/w = MatMul(x, dy, trans_a)
//
// Ops are visited against the order of the graph, as PyTorch's engine does; each contributes to the
// gradients of its inputs by the rule that the op table names (Traits::gradient). What matters for
// memory:
//
//   - gradients with respect to different inputs are ops of their own, so that each can run when
//     its memory is there;
//   - only what `wrt` needs is computed: no gradient of data, labels or constants;
//   - a value that several ops read has a sum as its gradient; where the op that makes the second
//     summand can add into a buffer (products, weight gradients, embedding gradients) it does,
//     otherwise an Add that may run in place;
//   - rules prefer to save the result instead of the operand, or an index, or nothing (Dropout), so
//     that fewer activations live until the backward pass;
//   - the gradient of a 2-d weight under activations of any rank is one 2-d product over views.
//
// Every appended op has Phase::kBackward and the module of the op it comes from. Sizes may be
// symbolic, but for means over symbolic extents.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::autodiff {

struct GradientOptions {
  bool add_into_buffers = true;  // use accumulator operands for sums of gradients; off: always Add
};

// Returns, for each of `wrt`, the value that holds the gradient of `loss` (a scalar of the graph);
// none where `loss` does not depend on it. Gradients of parameters are named "grad/<parameter>" and
// have Category::kGradient, all other new values Category::kTemporary. Ids of existing values and
// ops stay valid. Error: kInput, naming the op that has no gradient rule.
Result<std::vector<ir::ValueId>> append_gradients(ir::Graph& graph, ir::ValueId loss,
                                                  std::span<const ir::ValueId> wrt,
                                                  const GradientOptions& options = {});

}  // namespace lowtide::autodiff
