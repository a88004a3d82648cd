// Writing a graph again, whole or changed: what a pass copies first, and the order in which values
// and ops are added so that they get the ids again that they have. Values that no op makes have ids
// between those that ops make, so neither all values nor all ops can come first.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace lowtide::ir {

// One of the two is valid.
struct GraphItem {
  ValueId given;  // a value that no op makes
  OpId op;        // an op, with the values that it makes
};

// All ops, and all values that no op makes, by the ids of what they add.
std::vector<GraphItem> in_id_order(const Graph& graph);

// A graph without values and ops that is called, comes from and binds what `graph` does.
Graph empty_like(const Graph& graph);

}  // namespace lowtide::ir
