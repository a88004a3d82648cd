#include "ir/bind.h"

#include <string>
#include <utility>
#include <vector>

#include "ir/id_order.h"

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
  Graph result = empty_like(graph);
  for (const std::string& symbol : free_symbols(graph))
    if (const auto found = bindings.find(symbol); found != bindings.end())
      result.bindings[symbol] = found->second;
  const auto add_op = [&](OpId id) {
    Op op = graph.op(id);
    for (auto& [key, attr] : op.attrs)
      if (Dims* dims = std::get_if<Dims>(&attr)) *dims = bound(*dims);
    std::vector<Value> outputs;
    for (ValueId output : op.outputs) outputs.push_back(bound_value(graph.value(output)));
    result.add_op(std::move(op), std::move(outputs));
  };
  for (const GraphItem item : in_id_order(graph)) {
    if (item.given.valid())
      result.add_value(bound_value(graph.value(item.given)));
    else
      add_op(item.op);
  }
  LT_RETURN_IF_ERROR(check(result));
  return result;
}

}  // namespace lowtide::ir
