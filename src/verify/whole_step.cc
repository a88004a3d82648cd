#include "verify/whole_step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/dtype.h"

namespace lowtide::verify {

Numbers numbers(const ir::Dims& dims) {
  Numbers made;
  for (const sym::Expr& dim : dims) made.push_back(dim.constant().value_or(-1));
  return made;
}

Numbers list(const ir::Attrs& attrs, std::string_view key) {
  const auto found = attrs.find(key);
  if (found == attrs.end() || !std::holds_alternative<ir::Dims>(found->second)) return {};
  return numbers(std::get<ir::Dims>(found->second));
}

Numbers dims_of(const Seen& op, size_t input) {
  return numbers(op.instance.inputs[input]->dims);
}

namespace {

Composition slice_of(const Seen& op) {
  const Numbers starts = list(op.attrs, "starts"), sizes = list(op.attrs, "sizes");
  Composition made = *op.inputs[0];
  for (size_t d = 0; d < starts.size(); ++d)
    made = sliced(made, d, starts[d], starts[d] + sizes[d]);
  return made;
}

Composition joined(const Seen& op) {
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs.find("axis")->second));
  Composition made;
  int64_t at = 0;
  for (size_t i = 0; i < op.inputs.size() && op.inputs[i] != nullptr; ++i) {
    put(made, *op.inputs[i], axis, at);
    at += dims_of(op, i)[axis];
  }
  return made;
}

bool dense_slice(const Seen& op) {
  const Numbers steps = list(op.attrs, "steps");
  return op.kind == "Slice" &&
         std::all_of(steps.begin(), steps.end(), [](auto s) { return s == 1; });
}

// Between float types, as kernels want them.
bool float_cast(const Seen& op) {
  if (op.kind != "Cast" || !is_float(op.instance.inputs[0]->dtype)) return false;
  const auto to = op.attrs.find("to");
  const auto* word = to == op.attrs.end() ? nullptr : std::get_if<std::string>(&to->second);
  const auto dtype = word != nullptr ? parse_dtype(*word) : std::nullopt;
  return dtype && is_float(*dtype);
}

}  // namespace

std::optional<Composition> moved(ContentsTable& table, const Seen& op) {
  if (op.inputs.empty() || op.inputs[0] == nullptr) return std::nullopt;
  if (dense_slice(op)) return slice_of(op);
  if (op.kind == "Concat" || op.kind == "Join") return joined(op);
  if (op.kind == "Reorder" || op.kind == "Copy" || float_cast(op)) return *op.inputs[0];
  if (op.kind != "Reshape") return std::nullopt;
  const auto contents = single(table, *op.inputs[0], dims_of(op, 0));
  if (!contents) return std::nullopt;
  const ContentsId inner = table.at(*contents).elements_of;
  const ContentsId base = inner.valid() ? inner : *contents;
  if (table.at(base).dims == op.dims) return all_of(table, base);
  return all_of(table, table.id_of({.elements_of = base, .dims = op.dims}));
}

WholeStep::WholeStep(const ir::Graph& graph, ContentsTable& table)
    : graph_(graph),
      table_(table),
      of_(graph.value_count()),
      own_(graph.value_count()),
      only_moves_(graph.op_count(), 0),
      sums_(graph.op_count()) {
  for (const ir::ValueId id : graph.values())
    if (!graph.value(id).producer.valid()) of_[id] = all_of(table, own(id));
  for (const ir::OpId id : graph.ops()) add(id);
}

void WholeStep::add(ir::OpId id) {
  const ir::Op& op = graph_.op(id);
  by_name_.emplace(op.name, id);
  if (op.outputs.empty()) return;
  Seen seen{op.kind, op.attrs, {}, ops::instance_of(graph_, id), dims(op.outputs[0])};
  for (const ir::ValueId input : op.inputs)
    seen.inputs.push_back(input.valid() ? &of_[input] : nullptr);
  if (auto made = moved(table_, seen)) {
    only_moves_[id] = 1;
    of_[op.outputs[0]] = std::move(*made);
    return;
  }
  for (const ir::ValueId output : op.outputs) of_[output] = all_of(table_, own(output));
  for (const auto& [input, output] : ops::accumulators(seen.instance))
    add_up(id, static_cast<size_t>(input), op.outputs[static_cast<size_t>(output)]);
}

void WholeStep::add_up(ir::OpId id, size_t input, ir::ValueId output) {
  const auto before = single(table_, of_[graph_.op(id).inputs[input]], dims(output));
  const auto both = before ? table_.sum(*before, own(output)) : std::nullopt;
  if (!both) return;
  of_[output] = all_of(table_, *both);
  sums_[id].insert(input);
}

}  // namespace lowtide::verify
