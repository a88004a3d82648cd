#include "ir/reorder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lowtide::ir {

Rewritten reorder(const Graph& graph, std::span<const OpId> order) {
  LT_CHECK(order.size() == graph.op_count(), "an order has every op once");
  Rewritten made(graph);
  for (const ValueId id : graph.values())
    if (!graph.value(id).producer.valid()) made.give(id, graph.value(id));
  for (const OpId id : order) {
    std::vector<Value> outputs;
    for (const ValueId output : graph.op(id).outputs) outputs.push_back(graph.value(output));
    made.copy(id, graph.op(id), std::move(outputs));
  }
  return made;
}

// Whoever reads a value of a storage before it is overwritten stands before that op in the graph.
IdVector<OpId, std::vector<OpId>> must_precede(const Graph& graph) {
  IdVector<OpId, std::vector<OpId>> before(graph.op_count());
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    std::vector<OpId>& mine = before[id];
    mine = op.control;
    for (const ValueId input : op.inputs)
      if (input.valid() && graph.value(input).producer.valid())
        mine.push_back(graph.value(input).producer);
    for (const ValueId output : op.outputs) {
      if (graph.value(output).alias != Alias::kUpdate) continue;
      for (const ValueId member : graph.values_in(graph.value(output).storage))
        for (const OpId reader : graph.readers(member))
          if (reader < id) mine.push_back(reader);
    }
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  }
  return before;
}

}  // namespace lowtide::ir
