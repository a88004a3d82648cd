#include "exec/cpu/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/dtype.h"
#include "base/element.h"
#include "base/words.h"

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

bool lists(std::string_view types, DType type) {
  const std::vector<std::string_view> words = words_of(types);
  return types == "*" || std::find(words.begin(), words.end(), name(type)) != words.end();
}

// Holds the element types of one op against the words of its entry.
class TypeCheck {
 public:
  TypeCheck(const Entry& entry, const OpDesc& op) : entry_(entry), op_(op) {}

  Status run() {
    const size_t arrow = entry_.operands.find("->");
    LT_CHECK(arrow != std::string_view::npos, entry_.kind);
    const auto in = words_of(entry_.operands.substr(0, arrow));
    const auto out = words_of(entry_.operands.substr(arrow + 2));
    for (size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i]) LT_RETURN_IF_ERROR(operand("operand", i, in, *op_.inputs[i]));
    for (size_t i = 0; i < op_.outputs.size(); ++i)
      LT_RETURN_IF_ERROR(operand("output", i, out, op_.outputs[i]));
    return {};
  }

 private:
  Status operand(std::string_view side, size_t i, const std::vector<std::string_view>& words,
                 const TensorDesc& desc) {
    if (words.empty()) return unsupported(op_, fmt::format("takes no {}", side));
    const std::string_view word = words[std::min(i, words.size() - 1)];
    if (takes(word, desc.dtype)) return {};
    return unsupported(
        op_, fmt::format("{} {} is {}, wanted {}", side, i, name(desc.dtype), wanted(word)));
  }

  bool takes(std::string_view word, DType type) {
    if (word == "*") return true;
    if (word == "i") return type == DType::kI64 || type == DType::kI32;
    if (word == "S") return same_ && type == state_type(*same_);
    if (word != "T") return word == name(type);
    if (!same_ && lists(entry_.types, type)) same_ = type;
    return same_ == type;
  }

  std::string wanted(std::string_view word) const {
    if (word == "i") return "i64 or i32";
    if (word == "S" && same_) return std::string(name(state_type(*same_)));
    if (word == "T" && same_) return std::string(name(*same_)) + " as the others are";
    return word == "T" ? "one of " + std::string(entry_.types) : std::string(word);
  }

  const Entry& entry_;
  const OpDesc& op_;
  std::optional<DType> same_;
};

}  // namespace

Status check_types(const Entry& entry, const OpDesc& op) {
  return TypeCheck(entry, op).run();
}

Status check_blocked(const Entry& entry, const OpDesc& op) {
  if (entry.blocked) return {};
  for (const auto& input : op.inputs)
    if (input && !input->layout.blocked.empty())
      return unsupported(op, "an operand is in a blocked layout");
  for (const TensorDesc& output : op.outputs)
    if (!output.layout.blocked.empty()) return unsupported(op, "an output is in a blocked layout");
  return {};
}

Status check_strided(const Entry& entry, const OpDesc& op) {
  for (size_t i = 0; i < op.inputs.size() && !entry.strided; ++i)
    if (op.inputs[i] && op.inputs[i]->layout.strided())
      return unsupported(op, fmt::format("operand {} is a strided view", i));
  for (const TensorDesc& output : op.outputs)
    if (output.layout.strided() && !entry.holes)
      return unsupported(op, "an output is a strided view");
  return {};
}

plan::LayoutWish wish_row_major(const OpDesc& op) {
  return {.inputs = std::vector<Layout>(op.inputs.size()),
          .outputs = std::vector<Layout>(op.outputs.size())};
}

plan::LayoutWish wish_row_major_or_strided(const OpDesc& op, Builder build) {
  plan::LayoutWish wish = wish_row_major(op);
  OpDesc plain = op;
  for (auto& input : plain.inputs)
    if (input) input->layout = {};
  for (TensorDesc& output : plain.outputs) output.layout = {};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i] || !op.inputs[i]->layout.strided()) continue;
    OpDesc alone = plain;
    alone.inputs[i]->layout = op.inputs[i]->layout;
    if (build(alone)) wish.inputs[i] = op.inputs[i]->layout;
  }
  return wish;
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

int64_t integer_attr(const OpDesc& op, DType dtype, std::string_view name, double absent) {
  const plan::AttrValue* value = find(op, name);
  const auto* integer = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return integer != nullptr ? *integer : saturated(dtype, real_attr(op, name, absent));
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

}  // namespace lowtide::exec_cpu
