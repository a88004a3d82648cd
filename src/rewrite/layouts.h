// Layout assignment, by a greedy pass of our own: chooses layouts before planning, so that every
// conversion is an op with bytes and a cost like any other.
//
// Kernels say what they want (plan::KernelCatalog::wish): convolutions want channels-last data and
// weights in a blocked format of their own. Walking the ops in order, each input that lies
// otherwise gets a Reorder in front of the op; outputs follow from the op table. A strided view is
// copied for the readers whose kernels do not take its strides. Ops without a wish take what comes
// if the op table can type it; mixed operands are brought to the layout of the first permuted one,
// and where that does not help, or no kernel takes it, to row-major.
//
// A reordered activation is shared by all who want it. A reordered parameter is not: it is cheap to
// make again, and shared it would be held from the forward pass to the backward pass.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "plan/kernel_catalog.h"

namespace lowtide::rewrite {

struct LayoutReport {
  ir::Graph graph;
  int reorders = 0;
};

// All dims must be constant. Names, order, phases and control edges of the given ops stay. Outputs
// of the graph keep the layout they come to have; readers of results convert. Error: kInput, naming
// the op that cannot be typed in any layout.
Result<LayoutReport> choose_layouts(const ir::Graph& graph, const plan::KernelCatalog& catalog);

}  // namespace lowtide::rewrite
