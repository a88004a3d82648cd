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

}  // namespace lowtide::ir
