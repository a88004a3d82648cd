#include "ir/reorder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/id_order.h"

namespace lowtide::ir {

Reordered reorder(const Graph& graph, std::span<const OpId> order) {
  LT_CHECK(order.size() == graph.op_count(), "an order has every op once");
  Reordered made{.graph = empty_like(graph),
                 .op = IdVector<OpId, OpId>(graph.op_count()),
                 .value = IdVector<ValueId, ValueId>(graph.value_count())};
  for (const ValueId id : graph.values())
    if (!graph.value(id).producer.valid()) made.value[id] = made.graph.add_value(graph.value(id));
  for (const OpId id : order) {
    Op op = graph.op(id);
    const std::vector<ValueId> old_outputs = std::exchange(op.outputs, {});
    std::vector<Value> outputs;
    for (const ValueId output : old_outputs) {
      outputs.push_back(graph.value(output));
      ValueId& base = outputs.back().base;
      if (base.valid()) base = made.value[base];
    }
    for (ValueId& input : op.inputs)
      if (input.valid()) input = made.value[input];
    for (OpId& before : op.control) before = made.op[before];
    made.op[id] = made.graph.add_op(std::move(op), std::move(outputs));
    const std::vector<ValueId>& new_outputs = made.graph.op(made.op[id]).outputs;
    for (size_t i = 0; i < old_outputs.size(); ++i) made.value[old_outputs[i]] = new_outputs[i];
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
