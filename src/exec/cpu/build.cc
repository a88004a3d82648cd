#include "exec/cpu/build.h"

#include <fmt/format.h>

#include "base/dtype.h"

namespace lowtide::exec_cpu {
namespace {

std::string print(const TensorDesc& type) {
  std::string dims;
  for (int64_t dim : type.dims) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
  return fmt::format("{}[{}] {}", name(type.dtype), dims, lowtide::print(type.layout));
}

const plan::AttrValue* find(const OpDesc& op, std::string_view name) {
  auto it = op.attrs.find(name);
  return it == op.attrs.end() ? nullptr : &it->second;
}

}  // namespace

plan::LayoutWish wish_row_major(const OpDesc& op) {
  return {.inputs = std::vector<Layout>(op.inputs.size()),
          .outputs = std::vector<Layout>(op.outputs.size())};
}

int64_t int_attr(const OpDesc& op, std::string_view name, int64_t absent) {
  const plan::AttrValue* value = find(op, name);
  if (value == nullptr) return absent;
  if (const auto* integer = std::get_if<int64_t>(value)) return *integer;
  if (const auto* real = std::get_if<double>(value)) return static_cast<int64_t>(*real);
  return absent;
}

double real_attr(const OpDesc& op, std::string_view name, double absent) {
  const plan::AttrValue* value = find(op, name);
  if (value == nullptr) return absent;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return absent;
}

std::string word_attr(const OpDesc& op, std::string_view name, std::string_view absent) {
  const plan::AttrValue* value = find(op, name);
  const auto* word = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return word == nullptr ? std::string(absent) : *word;
}

std::vector<int64_t> list_attr(const OpDesc& op, std::string_view name,
                               std::vector<int64_t> absent) {
  const plan::AttrValue* value = find(op, name);
  const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
  return list == nullptr ? absent : *list;
}

std::string print(const OpDesc& op) {
  std::string text = op.kind + "(";
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += op.inputs[i] ? print(*op.inputs[i]) : "-";
  }
  text += ") ->";
  for (const TensorDesc& output : op.outputs) text += " " + print(output);
  return text;
}

tl::unexpected<Error> unsupported(const OpDesc& op, std::string_view why) {
  return error(ErrorCode::kInput, fmt::format("no CPU kernel for {}: {}", print(op), why));
}

bool has_input(const OpDesc& op, size_t i) {
  return i < op.inputs.size() && op.inputs[i].has_value();
}

Status check_counts(const OpDesc& op, size_t least, size_t most, size_t outputs) {
  if (op.inputs.size() < least || op.inputs.size() > most || op.outputs.size() != outputs)
    return unsupported(
        op, fmt::format("takes {} to {} operands and has {} outputs", least, most, outputs));
  for (size_t i = 0; i < least; ++i)
    if (!op.inputs[i]) return unsupported(op, fmt::format("operand {} is absent", i));
  return {};
}

Status check_plain_f32(const OpDesc& op) {
  auto fine = [](const TensorDesc& type) {
    return type.dtype == DType::kF32 && type.layout.blocked.empty();
  };
  for (const auto& input : op.inputs)
    if (input && !fine(*input)) return unsupported(op, "operands must be f32 in a plain layout");
  for (const TensorDesc& output : op.outputs)
    if (!fine(output)) return unsupported(op, "outputs must be f32 in a plain layout");
  return {};
}

}  // namespace lowtide::exec_cpu
