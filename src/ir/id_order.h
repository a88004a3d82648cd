// Writing a graph again, whole or changed: what a pass copies first, and the order in which values
// and ops are added so that they get the ids again that they have. Values that no op makes have ids
// between those that ops make, so neither all values nor all ops can come first.
#pragma once

#include <utility>
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

// A graph that is being written again, and where everything of the old one went. Ids of the old
// graph that were not written map to none.
struct Rewritten {
  explicit Rewritten(const Graph& old)
      : Rewritten(empty_like(old), old.op_count(), old.value_count()) {}
  Rewritten(Graph empty, size_t ops, size_t values)
      : graph(std::move(empty)), op(ops), value(values) {}

  // What old ids are now; none stays none.
  std::vector<ValueId> now(const std::vector<ValueId>& old) const;
  std::vector<OpId> now(const std::vector<OpId>& old) const;
  // A value that no op makes.
  void give(ValueId id, Value old) { value[id] = graph.add_value(std::move(old)); }
  // The op as it was, on what its operands are now.
  void copy(OpId id, Op old, std::vector<Value> outputs);
  // `made` stands for the op that made `outputs`.
  void note(OpId id, const std::vector<ValueId>& outputs, OpId made);

  Graph graph;
  IdVector<OpId, OpId> op;           // by old id
  IdVector<ValueId, ValueId> value;  // likewise
};

}  // namespace lowtide::ir
