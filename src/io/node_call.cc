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
  return door_.slots_.find(node_.inputs[i])->second;
}

const ir::Dims& NodeCall::dims(size_t i) const {
  Slot& s = door_.slots_.find(node_.inputs[i])->second;
  if (s.value) return of(*s.value).dims;
  if (s.host) return s.host->dims;
  s.known_dims = door_.dims_of(s).value_or(ir::Dims());
  return s.known_dims;
}

DType NodeCall::dtype(size_t i) const {
  const Slot& s = slot(i);
  if (s.value) return of(*s.value).dtype;
  if (s.host) return s.host->dtype;
  if (s.transposed) return of(*s.transposed).dtype;
  return s.initializer->dtype.value_or(DType::kU8);
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

bool NodeCall::is_parameter(size_t i) const {
  return has(i) && slot(i).initializer != nullptr && !slot(i).host;
}

Result<ir::ValueId> NodeCall::value(size_t i) {
  return door_.materialize(node_.inputs[i]);
}
Result<ir::ValueId> NodeCall::operand(size_t i) {
  return door_.materialize_narrow(node_.inputs[i]);
}

Result<ir::ValueId> NodeCall::inline_constant(const HostValue& host, std::string_view suffix) {
  return door_.constant(host, fmt::format("{}/{}", label_, suffix));
}

std::optional<std::pair<ir::ValueId, std::vector<size_t>>> NodeCall::pending_transpose(
    size_t i) const {
  const Slot& s = slot(i);
  if (!s.transposed) return std::nullopt;
  return std::pair(*s.transposed, s.perm);
}

Result<ir::ValueId> NodeCall::emit(std::string_view kind, std::vector<ir::ValueId> inputs,
                                   ir::Attrs attrs) {
  const std::string called = fmt::format("{}/{}", label_, kind);
  LT_ASSIGN(const ir::OpId op,
            ops::append(door_.graph_, kind, std::move(inputs), std::move(attrs),
                        {.name = called, .module = node_.module, .output_names = {called}}));
  return door_.graph_.op(op).outputs[0];
}

std::vector<std::string> NodeCall::output_names(size_t outputs) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs && i < node_.outputs.size(); ++i)
    names.push_back(node_.outputs[i]);
  if (final_name_ && !names.empty()) names[0] = *final_name_;
  return names;
}

Status NodeCall::result(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                        size_t outputs) {
  LT_ASSIGN(
      const ir::OpId op,
      ops::append(door_.graph_, kind, std::move(inputs), std::move(attrs),
                  {.name = label_, .module = node_.module, .output_names = output_names(outputs)}));
  for (size_t i = 0; i < outputs; ++i) set(i, door_.graph_.op(op).outputs[i]);
  return {};
}

Result<std::vector<ir::ValueId>> NodeCall::result_all(std::string_view kind,
                                                      std::vector<ir::ValueId> inputs,
                                                      ir::Attrs attrs) {
  LT_ASSIGN(const ir::OpId op,
            ops::append(door_.graph_, kind, std::move(inputs), std::move(attrs),
                        {.name = label_, .module = node_.module, .output_names = output_names(1)}));
  set(0, door_.graph_.op(op).outputs[0]);
  return door_.graph_.op(op).outputs;
}

Result<ir::ValueId> NodeCall::result_at(size_t output, std::string_view kind,
                                        std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
  LT_ASSIGN(const ir::OpId op,
            ops::append(
                door_.graph_, kind, std::move(inputs), std::move(attrs),
                {.name = label_, .module = node_.module, .output_names = {node_.outputs[output]}}));
  const ir::ValueId value = door_.graph_.op(op).outputs[0];
  set(output, value);
  return value;
}

void NodeCall::set(size_t output, ir::ValueId value) {
  if (!wants(output)) return;
  door_.slots_[node_.outputs[output]].value = value;
  if (output == 0 && final_name_) door_.slots_[*final_name_].value = value;
}

void NodeCall::set_host(size_t output, HostValue value) {
  if (wants(output)) door_.slots_[node_.outputs[output]].host = std::move(value);
}

void NodeCall::pass(size_t i) {
  door_.slots_[node_.outputs[0]] = slot(i);
}

void NodeCall::set_transpose(ir::ValueId source, std::vector<size_t> perm) {
  Slot& s = door_.slots_[node_.outputs[0]];
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
