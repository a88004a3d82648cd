#include "ir/id_order.h"

namespace lowtide::ir {

std::vector<GraphItem> in_id_order(const Graph& graph) {
  std::vector<GraphItem> items;
  size_t next_op = 0;
  const auto add_op = [&] { items.push_back({ValueId::none(), OpId(next_op++)}); };
  for (const ValueId value : graph.values()) {
    const OpId producer = graph.value(value).producer;
    if (!producer.valid()) items.push_back({value, OpId::none()});
    while (producer.valid() && next_op <= producer.index()) add_op();
  }
  while (next_op < graph.op_count()) add_op();
  return items;
}

Graph empty_like(const Graph& graph) {
  Graph empty;
  empty.name = graph.name;
  empty.producer = graph.producer;
  empty.bindings = graph.bindings;
  return empty;
}

std::vector<ValueId> Rewritten::now(const std::vector<ValueId>& old) const {
  std::vector<ValueId> found;
  found.reserve(old.size());
  for (const ValueId id : old) found.push_back(id.valid() ? value[id] : ValueId::none());
  return found;
}

std::vector<OpId> Rewritten::now(const std::vector<OpId>& old) const {
  std::vector<OpId> found;
  found.reserve(old.size());
  for (const OpId id : old) found.push_back(op[id]);
  return found;
}

void Rewritten::copy(OpId id, Op old, std::vector<Value> outputs) {
  const std::vector<ValueId> made = std::exchange(old.outputs, {});
  old.inputs = now(old.inputs);
  old.control = now(old.control);
  for (Value& output : outputs)
    if (output.base.valid()) output.base = value[output.base];
  note(id, made, graph.add_op(std::move(old), std::move(outputs)));
}

void Rewritten::note(OpId id, const std::vector<ValueId>& outputs, OpId made) {
  op[id] = made;
  for (size_t i = 0; i < outputs.size(); ++i) value[outputs[i]] = graph.op(made).outputs[i];
}

}  // namespace lowtide::ir
