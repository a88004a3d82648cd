// Ops as they go into a graph and come out of it.
#include <fmt/format.h>

#include <set>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

std::vector<std::string> output_names(const ir::Graph& graph, const std::string& op_name,
                                      const AppendOptions& options, size_t count) {
  std::vector<std::string> names;
  std::set<std::string> used;
  for (size_t i = 0; i < count; ++i) {
    std::string wanted = i == 0 ? op_name : fmt::format("{}.{}", op_name, i);
    if (i < options.output_names.size() && !options.output_names[i].empty())
      wanted = options.output_names[i];
    std::string name = wanted;
    for (int n = 1; graph.find_value(name) || !used.insert(name).second; ++n)
      name = fmt::format("{}.{}", wanted, n);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Instance instance_of(const ir::Graph& graph, ir::OpId op) {
  const ir::Op& found = graph.op(op);
  Instance instance{.kind = found.kind, .attrs = &found.attrs, .inputs = {}};
  for (ir::ValueId input : found.inputs) {
    if (!input.valid()) {
      instance.inputs.push_back(std::nullopt);
      continue;
    }
    const ir::Value& value = graph.value(input);
    instance.inputs.push_back(Type{value.dtype, value.dims, value.layout});
  }
  return instance;
}

Result<ir::OpId> append(ir::Graph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                        ir::Attrs attrs, const AppendOptions& options) {
  ir::Op op;
  op.kind = std::string(kind);
  op.name = graph.fresh_name(options.name.empty() ? kind : std::string_view(options.name));
  op.module = options.module;
  op.phase = options.phase;
  op.attrs = std::move(attrs);
  op.inputs = std::move(inputs);
  Instance instance{.kind = op.kind, .attrs = &op.attrs, .inputs = {}};
  for (ir::ValueId input : op.inputs) {
    std::optional<Type> type;
    if (input.valid()) {
      const ir::Value& value = graph.value(input);
      type = Type{value.dtype, value.dims, value.layout};
    }
    instance.inputs.push_back(std::move(type));
  }
  Result<std::vector<OutputType>> inferred = infer(instance);
  if (!inferred)
    return error(inferred.error().code,
                 fmt::format("op {}: {}", op.name, inferred.error().message));
  const std::vector<std::string> names = output_names(graph, op.name, options, inferred->size());
  std::vector<ir::Value> outputs;
  for (size_t i = 0; i < inferred->size(); ++i) {
    OutputType& type = (*inferred)[i];
    ir::Value value;
    value.name = names[i];
    value.dtype = type.type.dtype;
    value.dims = std::move(type.type.dims);
    value.layout = std::move(type.type.layout);
    value.alias = type.alias;
    value.category = options.category;
    if (type.alias != ir::Alias::kOwn) {
      value.base = op.inputs[static_cast<size_t>(type.base_input)];
      const ir::Value& base = graph.value(value.base);
      value.offset_bytes = base.offset_bytes + type.offset_bytes;
      value.category = base.category;
    }
    outputs.push_back(std::move(value));
  }
  return graph.add_op(std::move(op), std::move(outputs));
}

}  // namespace lowtide::ops
