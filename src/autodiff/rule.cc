#include "autodiff/rule.h"

#include <fmt/core.h>

#include "autodiff/backward.h"

namespace lowtide::autodiff {

RuleContext::RuleContext(Backward& pass, ir::OpId op) : pass_(pass), op_(pass.graph().op(op)) {}

const ir::Dims& RuleContext::dims(ir::ValueId value) const {
  return pass_.graph().value(value).dims;
}
DType RuleContext::dtype(ir::ValueId value) const {
  return pass_.graph().value(value).dtype;
}
std::string RuleContext::layout(ir::ValueId value) const {
  const Layout& layout = pass_.graph().value(value).layout;
  return print(layout.strided() ? Layout() : layout);  // what is made is dense
}
std::string RuleContext::what() const {
  return fmt::format("{} '{}'", op_.kind, op_.name);
}
bool RuleContext::needs(size_t i) const {
  return has_input(i) && pass_.needs(input(i));
}

bool RuleContext::has_dy(size_t o) const {
  return o < op_.outputs.size() && pass_.has_gradient(output(o));
}
Result<ir::ValueId> RuleContext::dy(size_t o) {
  return pass_.gradient(output(o));
}
Result<ir::ValueId> RuleContext::gradient_of(ir::ValueId value) {
  if (!pass_.has_gradient(value)) return ir::ValueId::none();
  return pass_.gradient(value);
}
void RuleContext::leave_to(ir::ValueId value) {
  pass_.visit_anyway(pass_.graph().value(value).producer);
}
std::vector<ir::Op> RuleContext::forward_readers(ir::ValueId value) const {
  std::vector<ir::Op> readers;
  for (const ir::OpId id : pass_.graph().readers(value))
    if (id.index() < pass_.forward_ops()) readers.push_back(pass_.graph().op(id));
  return readers;
}
std::optional<double> RuleContext::constant_dy() const {
  return pass_.constant_gradient(output(0));
}

Result<std::vector<ir::ValueId>> RuleContext::make_all(std::string_view kind,
                                                       std::vector<ir::ValueId> inputs,
                                                       ir::Attrs attrs) {
  LT_ASSIGN(const ir::OpId made, pass_.append(op_, kind, std::move(inputs), std::move(attrs)));
  return pass_.graph().op(made).outputs;
}

Result<ir::ValueId> RuleContext::make(std::string_view kind, std::vector<ir::ValueId> inputs,
                                      ir::Attrs attrs) {
  LT_ASSIGN(const auto outputs, make_all(kind, std::move(inputs), std::move(attrs)));
  return outputs[0];
}

Result<ir::ValueId> RuleContext::reshape(ir::ValueId value, const ir::Dims& shape) {
  if (dims(value) == shape) return value;
  return make("Reshape", {value}, {{"shape", shape}});
}

Result<ir::ValueId> RuleContext::sum(ir::ValueId value, std::vector<int64_t> axes, bool keepdims) {
  if (axes.empty()) return value;
  return make("ReduceSum", {value}, {{"axes", sizes(axes)}, {"keepdims", int64_t{keepdims}}});
}

Result<ir::ValueId> RuleContext::number(double value, ir::ValueId like) {
  return make("Fill", {},
              {{"shape", ir::Dims{}}, {"value", value}, {"dtype", std::string(name(dtype(like)))}});
}

ir::ValueId RuleContext::indices(const std::vector<int64_t>& values) {
  ir::Value value;
  value.name = pass_.graph().fresh_name(op_.name + "/indices");
  value.dtype = DType::kI64;
  value.dims = {static_cast<int64_t>(values.size())};
  value.category = Category::kInput;
  value.initial.kind = ir::InitialValue::Kind::kInline;
  for (const int64_t number : values)
    for (int byte = 0; byte < 8; ++byte)
      value.initial.bytes.push_back(
          static_cast<char>(static_cast<uint64_t>(number) >> (8 * byte) & 0xFF));
  return pass_.graph().add_value(std::move(value));
}

Result<ir::ValueId> RuleContext::reduce_to(ir::ValueId value, const ir::Dims& target) {
  const ir::Dims from = dims(value);
  if (from == target) return value;
  const size_t shift = from.size() - target.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < from.size(); ++d)
    if (d < shift || (target[d - shift] == sym::Expr(1) && !(from[d] == sym::Expr(1))))
      axes.push_back(static_cast<int64_t>(d));
  LT_ASSIGN(const ir::ValueId summed, sum(value, axes, false));
  return reshape(summed, target);
}

Status RuleContext::give(size_t i, ir::ValueId gradient) {
  if (!needs(i)) return {};
  return pass_.add_gradient(input(i), gradient);
}

Status RuleContext::give_reduced(size_t i, ir::ValueId gradient) {
  if (!needs(i)) return {};
  const ir::Dims target = dims(input(i)), from = dims(gradient);
  if (from.size() > target.size() &&
      std::equal(target.begin(), target.end(), from.end() - static_cast<long>(target.size()))) {
    std::vector<int64_t> leading;  // a bias: nothing is left to be reshaped
    for (size_t d = 0; d + target.size() < from.size(); ++d)
      leading.push_back(static_cast<int64_t>(d));
    return give_added(i, "ReduceSum", {gradient},
                      {{"axes", sizes(leading)}, {"keepdims", int64_t{0}}});
  }
  LT_ASSIGN(const ir::ValueId reduced, reduce_to(gradient, target));
  return pass_.add_gradient(input(i), reduced);
}

Status RuleContext::give_constant(size_t i, double value) {
  if (!needs(i)) return {};
  return pass_.add_constant(input(i), value);
}

// Where output o of the op would add into what is there, and there is something.
std::optional<size_t> RuleContext::open_operand(const ops::Row& row, size_t o, size_t i) const {
  if (!pass_.options().add_into_buffers || !pass_.has_gradient(input(i))) return std::nullopt;
  const auto place = ops::accumulator_operand(row, static_cast<int>(o));
  if (!place) return std::nullopt;
  return static_cast<size_t>(*place);
}

Status RuleContext::add_accumulator(std::vector<ir::ValueId>& inputs, size_t place, size_t i) {
  if (inputs.size() <= place) inputs.resize(place + 1, ir::ValueId::none());
  LT_ASSIGN(inputs[place], pass_.gradient(input(i)));
  return {};
}

Status RuleContext::give_added(size_t i, std::string_view kind, std::vector<ir::ValueId> inputs,
                               ir::Attrs attrs) {
  if (!needs(i)) return {};
  const std::optional<size_t> place = open_operand(*ops::find(kind), 0, i);
  if (place) LT_RETURN_IF_ERROR(add_accumulator(inputs, *place, i));
  const bool first = !pass_.has_gradient(input(i));
  LT_ASSIGN(const ir::ValueId made, make(kind, std::move(inputs), std::move(attrs)));
  if (!place && !first) return pass_.add_gradient(input(i), made);
  pass_.replace_gradient(input(i), made);
  return {};
}

Status RuleContext::give_all_added(std::string_view kind, std::vector<ir::ValueId> inputs,
                                   ir::Attrs attrs) {
  const ops::Row& row = *ops::find(kind);
  std::vector<char> added(op_.inputs.size(), 0);
  for (size_t i = 0; i < op_.inputs.size(); ++i) {
    if (!has_input(i) || !needs(i)) continue;
    const std::optional<size_t> place = open_operand(row, i, i);
    if (!place) continue;
    LT_RETURN_IF_ERROR(add_accumulator(inputs, *place, i));
    added[i] = 1;
  }
  LT_ASSIGN(const std::vector<ir::ValueId> made,
            make_all(kind, std::move(inputs), std::move(attrs)));
  for (size_t i = 0; i < made.size() && i < op_.inputs.size(); ++i) {
    if (!has_input(i)) continue;
    if (added[i])
      pass_.replace_gradient(input(i), made[i]);
    else
      LT_RETURN_IF_ERROR(give(i, made[i]));
  }
  return {};
}

ir::Dims sizes(const std::vector<int64_t>& values) {
  return ir::Dims(values.begin(), values.end());
}

int64_t integer_attr(const ir::Attrs& attrs, std::string_view name, int64_t absent) {
  const auto found = attrs.find(name);
  if (found == attrs.end()) return absent;
  const auto* value = std::get_if<int64_t>(&found->second);
  return value ? *value : absent;
}

double real_attr(const ir::Attrs& attrs, std::string_view name, double absent) {
  const auto found = attrs.find(name);
  if (found == attrs.end()) return absent;
  if (const auto* value = std::get_if<double>(&found->second)) return *value;
  const auto* value = std::get_if<int64_t>(&found->second);
  return value ? static_cast<double>(*value) : absent;
}

ir::Dims list_attr(const ir::Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  if (found == attrs.end()) return {};
  const auto* value = std::get_if<ir::Dims>(&found->second);
  return value ? *value : ir::Dims{};
}

ir::Dims spatial(const ir::Dims& dims) {
  return ir::Dims(dims.begin() + 2, dims.end());
}

ir::Attrs with(ir::Attrs attrs, const ir::Attrs& more) {
  for (const auto& [name, value] : more) attrs.insert_or_assign(name, value);
  return attrs;
}

ir::Attrs only(const ir::Attrs& attrs, std::initializer_list<std::string_view> names) {
  ir::Attrs kept;
  for (const std::string_view name : names)
    if (const auto found = attrs.find(name); found != attrs.end()) kept.insert(*found);
  return kept;
}

}  // namespace lowtide::autodiff
