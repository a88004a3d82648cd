// Ops as they go into a graph and come out of it. Nothing else in this project makes the outputs
// of an op: where a view starts, for one, is its base's place and the op's own offset, and who adds
// only one of the two has a graph that reads other bytes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ops/edit.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

bool joins(const std::vector<OutputType>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const OutputType& output) { return output.alias == ir::Alias::kPieces; });
}
bool may_join(const ir::Graph& graph, const std::vector<ir::ValueId>& inputs) {
  return graph.may_join(inputs);
}
bool may_join(const ir::GraphEdit&, const std::vector<ir::ValueId>&) {
  return true;  // the edit says what is wrong with it
}

template <class AnyGraph>
std::vector<std::string> output_names(const AnyGraph& graph, const std::string& op_name,
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

// Graphs and edits of graphs are read alike.
template <class AnyGraph>
std::vector<std::optional<Type>> types_of(const AnyGraph& graph,
                                          const std::vector<ir::ValueId>& inputs) {
  std::vector<std::optional<Type>> types;
  for (const ir::ValueId input : inputs) {
    if (!input.valid()) {
      types.push_back(std::nullopt);
      continue;
    }
    const ir::Value& value = graph.value(input);
    types.push_back(Type{value.dtype, value.dims, value.layout});
  }
  return types;
}

// An op with its outputs, not yet in the graph.
struct Made {
  ir::Op op;
  std::vector<ir::Value> outputs;
};

template <class AnyGraph>
Result<Made> make_op(const AnyGraph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                     ir::Attrs attrs, const AppendOptions& options) {
  Made made;
  ir::Op& op = made.op;
  op.kind = std::string(kind);
  op.name = graph.fresh_name(options.name.empty() ? kind : std::string_view(options.name));
  op.module = options.module;
  op.source = options.source;
  op.phase = options.phase;
  op.control = options.control;
  op.attrs = std::move(attrs);
  op.inputs = std::move(inputs);
  Result<std::vector<OutputType>> inferred =
      infer({.kind = op.kind, .attrs = &op.attrs, .inputs = types_of(graph, op.inputs)});
  if (!inferred)
    return error(inferred.error().code,
                 fmt::format("op {}: {}", op.name, inferred.error().message));
  if (joins(*inferred) && !may_join(graph, op.inputs))
    return error(ErrorCode::kInput,
                 fmt::format("op {}: a piece is absent or there twice", op.name));
  const std::vector<std::string> names = output_names(graph, op.name, options, inferred->size());
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
    made.outputs.push_back(std::move(value));
  }
  return made;
}

}  // namespace

Instance instance_of(const ir::Graph& graph, ir::OpId op) {
  const ir::Op& found = graph.op(op);
  return {.kind = found.kind, .attrs = &found.attrs, .inputs = types_of(graph, found.inputs)};
}

Instance instance_of(const ir::GraphEdit& edit, ir::OpId op) {
  const ir::Op& found = edit.op(op);
  return {.kind = found.kind, .attrs = &found.attrs, .inputs = types_of(edit, found.inputs)};
}

Result<ir::OpId> append(ir::Graph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                        ir::Attrs attrs, const AppendOptions& options) {
  LT_ASSIGN(Made made, make_op(graph, kind, std::move(inputs), std::move(attrs), options));
  return graph.add_op(std::move(made.op), std::move(made.outputs));
}

Result<ir::OpId> append(ir::GraphEdit& edit, ir::Place place, std::string_view kind,
                        std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                        const AppendOptions& options) {
  LT_ASSIGN(Made made, make_op(edit, kind, std::move(inputs), std::move(attrs), options));
  return edit.add_op(std::move(made.op), std::move(made.outputs), place);
}

namespace {

// New forms are worked out beside the edit, which takes them all at once: while some are old and
// some new, a view may be larger than what it lies on.
class Reinference {
 public:
  explicit Reinference(const ir::GraphEdit& edit) : edit_(edit) {}

  Status run(ir::OpId op) {
    std::vector<ir::OpId> open{op};
    while (!open.empty()) {
      // The first in order, so that each op is inferred after all that it reads.
      const ir::OpId now = *std::min_element(
          open.begin(), open.end(), [&](ir::OpId a, ir::OpId b) { return edit_.before(a, b); });
      std::erase(open, now);
      LT_ASSIGN(std::vector<OutputType> outputs, infer_one(now));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const ir::ValueId output = edit_.op(now).outputs[i];
        if (!take(output, form_of(now, std::move(outputs[i])))) continue;
        const auto readers = edit_.readers(output);
        open.insert(open.end(), readers.begin(), readers.end());
      }
    }
    return {};
  }
  std::span<const std::pair<ir::ValueId, ir::ValueForm>> forms() const { return forms_; }

 private:
  Result<std::vector<OutputType>> infer_one(ir::OpId op) const {
    Instance instance = instance_of(edit_, op);
    for (size_t i = 0; i < instance.inputs.size(); ++i)
      for (const auto& [id, form] : forms_)
        if (edit_.op(op).inputs[i] == id)
          instance.inputs[i] = Type{form.dtype, form.dims, form.layout};
    Result<std::vector<OutputType>> outputs = infer(instance);
    if (!outputs)
      return error(outputs.error().code,
                   fmt::format("op {}: {}", edit_.op(op).name, outputs.error().message));
    if (outputs->size() != edit_.op(op).outputs.size())
      return error(ErrorCode::kInput,
                   fmt::format("op {}: makes {} values now, {} before", edit_.op(op).name,
                               outputs->size(), edit_.op(op).outputs.size()));
    return outputs;
  }

  ir::ValueForm form_of(ir::OpId op, OutputType inferred) const {
    ir::ValueForm form{.dtype = inferred.type.dtype,
                       .dims = std::move(inferred.type.dims),
                       .layout = std::move(inferred.type.layout),
                       .alias = inferred.alias,
                       .offset_bytes = inferred.offset_bytes};
    if (form.alias != ir::Alias::kOwn)
      form.base = edit_.op(op).inputs[static_cast<size_t>(inferred.base_input)];
    return form;
  }

  // False when the output has that form already.
  bool take(ir::ValueId output, ir::ValueForm form) {
    const ir::Value& was = edit_.value(output);
    sym::Expr offset = was.offset_bytes;
    if (was.base.valid()) offset = offset - edit_.value(was.base).offset_bytes;
    if (was.dtype == form.dtype && was.dims == form.dims && was.layout == form.layout &&
        was.alias == form.alias && was.base == form.base && offset == form.offset_bytes)
      return false;
    forms_.emplace_back(output, std::move(form));
    return true;
  }

  const ir::GraphEdit& edit_;
  std::vector<std::pair<ir::ValueId, ir::ValueForm>> forms_;  // in order
};

}  // namespace

Status infer_again(ir::GraphEdit& edit, ir::OpId op) {
  Reinference again(edit);
  LT_RETURN_IF_ERROR(again.run(op));
  return edit.set_forms(again.forms());
}

namespace {

// What the storage of an output is for, if it owns one here. One that was a view had the category
// of its base, which is of another phase's making or none.
Category own_category(const ir::Op& op, const ir::Value& output) {
  if (output.alias == ir::Alias::kOwn || output.category == Category::kGradient)
    return output.category;
  return op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
}

}  // namespace

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

Result<ir::OpId> append_again(ir::Graph& graph, const ir::Graph& from, ir::OpId op,
                              std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                              std::vector<ir::OpId> control) {
  const ir::Op& old = from.op(op);
  AppendOptions options;
  options.name = old.name;
  options.module = old.module;
  options.source = old.source;
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

Status append_again(ir::Rewritten& graph, const ir::Graph& from, ir::OpId op,
                    std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
  const ir::Op& old = from.op(op);
  LT_ASSIGN(const ir::OpId made, append_again(graph.graph, from, op, std::move(inputs),
                                              std::move(attrs), graph.now(old.control)));
  graph.note(op, old.outputs, made);
  return {};
}

}  // namespace lowtide::ops
