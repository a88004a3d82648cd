// Ops as they go into a graph and come out of it. Nothing else in this project makes the outputs
// of an op: where a view starts, for one, is its base's place and the op's own offset, and who adds
// only one of the two has a graph that reads other bytes.
#include <fmt/format.h>

#include <set>

#include "base/check.h"
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
  op.control = options.control;
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
    if (type.alias == ir::Alias::kPieces) {
      value.category = graph.value(op.inputs[0]).category;
    } else if (type.alias != ir::Alias::kOwn) {
      value.base = op.inputs[static_cast<size_t>(type.base_input)];
      const ir::Value& base = graph.value(value.base);
      value.offset_bytes = base.offset_bytes + type.offset_bytes;
      value.category = base.category;
    }
    outputs.push_back(std::move(value));
  }
  return graph.add_op(std::move(op), std::move(outputs));
}

namespace {

// What the storage of an output is for, if it owns one here. One that was a view had the category
// of its base, which is of another phase's making or none.
Category own_category(const ir::Op& op, const ir::Value& output) {
  if (output.alias == ir::Alias::kOwn || output.category == Category::kGradient)
    return output.category;
  return op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
}

// What an update reads as a gradient is one down to the storage, or the pieces, that it lies in.
void mark_gradient(ir::Graph& graph, ir::ValueId id) {
  std::vector<ir::ValueId> open = {id};
  while (!open.empty()) {
    const ir::ValueId next = open.back();
    open.pop_back();
    const ir::Value& value = graph.value(next);
    if (!value.producer.valid() || graph.op(value.producer).phase != Phase::kBackward) continue;
    graph.set_category(next, Category::kGradient);
    if (value.alias == ir::Alias::kView) open.push_back(value.base);
    const auto& inputs = graph.op(value.producer).inputs;
    if (value.alias == ir::Alias::kPieces) open.insert(open.end(), inputs.begin(), inputs.end());
  }
}

}  // namespace

Result<ir::OpId> append_again(ir::Graph& graph, const ir::Graph& from, ir::OpId op,
                              std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                              std::vector<ir::OpId> control) {
  const ir::Op& old = from.op(op);
  AppendOptions options;
  options.name = old.name;
  options.module = old.module;
  options.phase = old.phase;
  options.control = std::move(control);
  for (ir::ValueId output : old.outputs) options.output_names.push_back(from.value(output).name);
  LT_ASSIGN(const ir::OpId added,
            append(graph, old.kind, std::move(inputs), std::move(attrs), options));
  const std::vector<ir::ValueId> made = graph.op(added).outputs;
  LT_CHECK(made.size() == old.outputs.size(), old.name);
  for (size_t i = 0; i < made.size(); ++i) {
    const ir::Value& was = from.value(old.outputs[i]);
    graph.keep_output(made[i], was);
    if (graph.value(made[i]).alias == ir::Alias::kOwn)
      graph.set_category(made[i], own_category(old, was));
    else if (was.category == Category::kGradient)
      mark_gradient(graph, made[i]);
  }
  return added;
}

}  // namespace lowtide::ops
