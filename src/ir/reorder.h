// A graph again, its ops in another order: the same ops, values and names with other ids.
#pragma once

#include <span>

#include "base/id.h"
#include "ir/graph.h"
#include "ir/id_order.h"

namespace lowtide::ir {

// `order`: every op once, after whoever makes what it reads, after its control and, if it
// overwrites a storage, after all who read what was there (must_precede). Given values come first.
Rewritten reorder(const Graph& graph, std::span<const OpId> order);

// By op, ascending: the ops that must come before it in every order.
IdVector<OpId, std::vector<OpId>> must_precede(const Graph& graph);

}  // namespace lowtide::ir
