#include <fmt/format.h>

#include "io/convert.h"
#include "ops/op_table.h"

namespace lowtide::io {

ir::AttrValue list(std::vector<sym::Expr> values) {
  return ir::Dims(std::move(values));
}
ir::AttrValue list(const std::vector<int64_t>& values) {
  return ir::Dims(values.begin(), values.end());
}
ir::AttrValue word(std::string_view text) {
  return std::string(text);
}

NodeCall::NodeCall(Conversion& door, size_t index)
    : door_(door), index_(index), node_(door.model_.nodes[index]), label_(node_.name) {
  for (const std::string& output : node_.outputs)
    if (label_.empty()) label_ = output;
}

const Slot& NodeCall::slot(size_t i) const {
  return *door_.find_slot(node_.inputs[i]);
}

const OnnxValueInfo* NodeCall::declared(size_t output) const {
  const auto found = door_.model_.value_info.find(node_.outputs[output]);
  return found == door_.model_.value_info.end() ? nullptr : &found->second;
}

Status NodeCall::check_types() const {
  for (size_t i = 0; i < inputs(); ++i) {
    const OnnxTensor* tensor = has(i) ? slot(i).initializer : nullptr;
    if (tensor != nullptr && !tensor->dtype)
      return error(ErrorCode::kInput,
                   fmt::format("input {} ('{}') has type {}, which is not computed with", i,
                               node_.inputs[i], onnx_type_name(tensor->type_code)));
  }
  return {};
}

Status NodeCall::check_floats(size_t i) const {
  if (is_float(dtype(i))) return {};
  return error(ErrorCode::kInput,
               fmt::format("input {} is {}; only floats are taken", i, name(dtype(i))));
}

ir::Dims NodeCall::dims(size_t i) const {
  Slot& s = door_.slot(node_.inputs[i]);
  if (s.value) return of(*s.value).dims;
  if (s.host) return s.host->dims;
  return door_.dims_of(s).value_or(ir::Dims());
}

DType NodeCall::dtype(size_t i) const {
  const Slot& s = slot(i);
  if (s.value) return of(*s.value).dtype;
  if (s.host) return s.host->dtype;
  if (s.transposed) return of(*s.transposed).dtype;
  return *s.initializer->dtype;  // check_types has seen it
}

const HostValue* NodeCall::host(size_t i) const {
  if (!has(i)) return nullptr;
  const Slot& s = slot(i);
  return s.host ? &*s.host : nullptr;
}

Result<std::vector<sym::Expr>> NodeCall::sizes(size_t i) const {
  if (const HostValue* known = host(i)) return host_ints(*known);
  return error(ErrorCode::kInput,
               fmt::format("input {} ('{}') must be known when the model is read", i,
                           i < node_.inputs.size() ? node_.inputs[i] : ""));
}

Result<std::vector<int64_t>> NodeCall::integers(size_t i) const {
  if (const HostValue* known = host(i)) return host_constants(*known);
  LT_ASSIGN(const std::vector<sym::Expr> none, sizes(i));
  return std::vector<int64_t>(none.size());
}

std::optional<double> NodeCall::scalar(size_t i) const {
  const HostValue* known = host(i);
  if (known == nullptr || known->form == HostValue::Form::kUnknown) return std::nullopt;
  for (const sym::Expr& dim : known->dims)
    if (!(dim == sym::Expr(1))) return std::nullopt;
  const auto reals = host_reals(*known);
  return reals && reals->size() == 1 ? std::optional((*reals)[0]) : std::nullopt;
}

std::optional<ir::AttrValue> NodeCall::number(size_t i) const {
  const HostValue* known = host(i);
  if (known == nullptr || !is_integer(known->dtype)) {
    const auto real = scalar(i);
    return real ? std::optional<ir::AttrValue>(*real) : std::nullopt;
  }
  if (known->form == HostValue::Form::kUnknown) return std::nullopt;
  for (const sym::Expr& dim : known->dims)
    if (!(dim == sym::Expr(1))) return std::nullopt;
  const auto integers = host_constants(*known);
  return integers && integers->size() == 1 ? std::optional<ir::AttrValue>((*integers)[0])
                                           : std::nullopt;
}

bool NodeCall::is_parameter(size_t i) const {
  return has(i) && slot(i).initializer != nullptr && !slot(i).host;
}

std::optional<ir::ValueId> NodeCall::buffer(ir::ValueId id) const {
  const ir::Graph& graph = door_.graph_;
  const ir::Value& value = graph.value(id);
  const ir::Value& root = graph.value(graph.storage(value.storage).root);
  const bool whole = ir::size_bytes(value) == ir::size_bytes(root);
  if (!training() || root.producer.valid() || root.category != Category::kParameter || !whole)
    return std::nullopt;
  ir::ValueId newest = id;
  for (ir::ValueId other : graph.values_in(value.storage)) {
    const ir::Value& version = graph.value(other);
    if (version.alias == ir::Alias::kUpdate && version.dims == value.dims) newest = other;
  }
  return newest;
}

void NodeCall::renew(size_t i, ir::ValueId version) {
  door_.slot(node_.inputs[i]).value = version;
}

Result<ir::ValueId> NodeCall::value(size_t i) {
  return door_.materialize(node_.inputs[i]);
}
Result<ir::ValueId> NodeCall::operand(size_t i) {
  return door_.materialize_narrow(node_.inputs[i]);
}

Result<ir::ValueId> NodeCall::inline_constant(const HostValue& host, std::string_view suffix) {
  return door_.constant(host, door_.inner_name(fmt::format("{}/{}", label_, suffix)));
}

Result<ir::ValueId> NodeCall::inline_number(double value, DType dtype, std::string_view suffix) {
  HostValue host;
  host.dtype = dtype;
  if (is_float(dtype)) {
    host.reals = {value};
  } else {
    host.ints = {static_cast<int64_t>(value)};
  }
  return inline_constant(host, suffix);
}

std::optional<std::pair<ir::ValueId, std::vector<size_t>>> NodeCall::pending_transpose(
    size_t i) const {
  const Slot& s = slot(i);
  if (!s.transposed) return std::nullopt;
  return std::pair(*s.transposed, s.perm);
}

// Adds an op. Its refusal is told of the node: the name under which the op would have stood is none
// of the file's, and its kind is said only where it is another than the node's.
Result<std::vector<ir::ValueId>> NodeCall::append(std::string_view kind,
                                                  std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                                                  std::string name,
                                                  std::vector<std::string> output_names) {
  const auto op = ops::append(door_.graph_, kind, std::move(inputs), std::move(attrs),
                              {.name = name,
                               .module = node_.module,
                               .source = node_.source,
                               .output_names = std::move(output_names)});
  if (op) return door_.graph_.op(*op).outputs;
  std::string_view told = op.error().message;
  const auto drop = [&](const std::string& start) {
    if (told.starts_with(start)) told.remove_prefix(start.size());
  };
  drop(fmt::format("op {}: ", door_.graph_.fresh_name(name)));
  drop(fmt::format("{}: ", node_.op_type));
  return error(op.error().code, told.starts_with(fmt::format("{}: ", kind))
                                    ? fmt::format("written out with {}", told)
                                    : std::string(told));
}

Result<std::vector<ir::ValueId>> NodeCall::emit_all(std::string_view kind,
                                                    std::vector<ir::ValueId> inputs,
                                                    ir::Attrs attrs) {
  const std::string called = door_.inner_name(fmt::format("{}/{}", label_, kind));
  return append(kind, std::move(inputs), std::move(attrs), called, {called});
}

Result<ir::ValueId> NodeCall::emit(std::string_view kind, std::vector<ir::ValueId> inputs,
                                   ir::Attrs attrs) {
  LT_ASSIGN(const std::vector<ir::ValueId> made,
            emit_all(kind, std::move(inputs), std::move(attrs)));
  return made[0];
}

std::vector<std::string> NodeCall::output_names(size_t outputs) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs && i < node_.outputs.size(); ++i)
    names.push_back(node_.outputs[i]);
  if (final_name_ && !names.empty()) names[0] = *final_name_;
  // Left out, it would be called as the node is, which may be what another output is called.
  if (!names.empty() && names[0].empty())
    names[0] = door_.inner_name(fmt::format("{}/left_out", label_));
  return names;
}

Status NodeCall::result(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                        size_t outputs) {
  LT_ASSIGN(const std::vector<ir::ValueId> made,
            append(kind, std::move(inputs), std::move(attrs), label_, output_names(outputs)));
  for (size_t i = 0; i < outputs; ++i) set(i, made[i]);
  return {};
}

Result<std::vector<ir::ValueId>> NodeCall::result_all(std::string_view kind,
                                                      std::vector<ir::ValueId> inputs,
                                                      ir::Attrs attrs) {
  LT_ASSIGN(std::vector<ir::ValueId> made,
            append(kind, std::move(inputs), std::move(attrs), label_, output_names(1)));
  set(0, made[0]);
  return made;
}

Result<ir::ValueId> NodeCall::result_at(size_t output, std::string_view kind,
                                        std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
  LT_ASSIGN(const std::vector<ir::ValueId> made,
            append(kind, std::move(inputs), std::move(attrs), label_, {node_.outputs[output]}));
  set(output, made[0]);
  return made[0];
}

Result<ir::ValueId> NodeCall::as_type(ir::ValueId x, DType to) {
  if (of(x).dtype == to) return x;
  return emit("Cast", {x}, {{"to", word(name(to))}});
}

Result<ir::ValueId> NodeCall::wide(ir::ValueId x) {
  const DType type = of(x).dtype;
  return is_float(type) && size_bytes(type) == 2 ? as_type(x, DType::kF32) : x;
}

Status NodeCall::result_as(DType to, std::string_view kind, std::vector<ir::ValueId> inputs,
                           ir::Attrs attrs) {
  const bool own = inputs.empty() || of(inputs[0]).dtype == to;
  if (own) return result(kind, std::move(inputs), std::move(attrs));
  LT_ASSIGN(const ir::ValueId made, emit(kind, std::move(inputs), std::move(attrs)));
  return result("Cast", {made}, {{"to", word(name(to))}});
}

void NodeCall::set(size_t output, ir::ValueId value) {
  if (!wants(output)) return;
  door_.slot(node_.outputs[output]).value = value;
  if (output == 0 && final_name_) door_.slot(*final_name_).value = value;
}

void NodeCall::set_host(size_t output, HostValue value) {
  if (wants(output)) door_.slot(node_.outputs[output]).host = std::move(value);
}

void NodeCall::pass(size_t i) {
  door_.slot_of_[node_.outputs[0]] = door_.slot_of_.find(node_.inputs[i])->second;
}

void NodeCall::set_transpose(ir::ValueId source, std::vector<size_t> perm) {
  Slot& s = door_.slot(node_.outputs[0]);
  s.transposed = source;
  s.perm = std::move(perm);
  s.transpose_node = index_;
}

std::optional<size_t> NodeCall::sole_reader(std::string_view op_type) const {
  const auto readers = door_.readers_.find(node_.outputs[0]);
  if (readers == door_.readers_.end() || readers->second.size() != 1) return std::nullopt;
  if (door_.outputs_.contains(node_.outputs[0])) return std::nullopt;
  const size_t reader = readers->second[0];
  const OnnxNode& found = door_.model_.nodes[reader];
  return found.op_type == op_type && found.domain.empty() && !found.outputs.empty()
             ? std::optional(reader)
             : std::nullopt;
}

void NodeCall::absorb(size_t reader) {
  door_.done_[reader] = true;
  final_name_ = door_.model_.nodes[reader].outputs[0];
}

}  // namespace lowtide::io
