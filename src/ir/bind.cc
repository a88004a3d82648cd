#include "ir/bind.h"

#include <string>
#include <utility>
#include <vector>

namespace lowtide::ir {

Result<Graph> bind(const Graph& graph, const sym::Bindings& bindings) {
  const auto bound = [&](const Dims& dims) {
    Dims result;
    for (const sym::Expr& dim : dims) result.push_back(dim.substitute(bindings));
    return result;
  };
  const auto bound_value = [&](Value value) {
    value.dims = bound(value.dims);
    value.offset_bytes = value.offset_bytes.substitute(bindings);
    return value;
  };
  Graph result;
  result.name = graph.name;
  result.producer = graph.producer;
  result.bindings = graph.bindings;
  for (const std::string& symbol : free_symbols(graph))
    if (const auto found = bindings.find(symbol); found != bindings.end())
      result.bindings[symbol] = found->second;
  // Ids must not change, so values are added in their own order: those of an op with the op.
  size_t next_op = 0;
  const auto add_next_op = [&] {
    Op op = graph.op(OpId(next_op++));
    for (auto& [key, attr] : op.attrs)
      if (Dims* dims = std::get_if<Dims>(&attr)) *dims = bound(*dims);
    std::vector<Value> outputs;
    for (ValueId output : op.outputs) outputs.push_back(bound_value(graph.value(output)));
    result.add_op(std::move(op), std::move(outputs));
  };
  for (ValueId v : graph.values()) {
    const Value& value = graph.value(v);
    if (!value.producer.valid()) result.add_value(bound_value(value));
    while (value.producer.valid() && next_op <= value.producer.index()) add_next_op();
  }
  while (next_op < graph.op_count()) add_next_op();
  LT_RETURN_IF_ERROR(check(result));
  return result;
}

}  // namespace lowtide::ir
