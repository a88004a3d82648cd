#include "io/onnx_model.h"

#include <fmt/format.h>

#include <array>

namespace lowtide::io {
namespace {

struct TypeRow {
  std::string_view name;
  std::optional<DType> dtype;
};

// Indexed by ONNX's type code.
constexpr std::array<TypeRow, 29> kTypes = {{
    {"UNDEFINED", {}},
    {"FLOAT", DType::kF32},
    {"UINT8", DType::kU8},
    {"INT8", DType::kI8},
    {"UINT16", DType::kU16},
    {"INT16", DType::kI16},
    {"INT32", DType::kI32},
    {"INT64", DType::kI64},
    {"STRING", {}},
    {"BOOL", DType::kBool},
    {"FLOAT16", DType::kF16},
    {"DOUBLE", DType::kF64},
    {"UINT32", DType::kU32},
    {"UINT64", DType::kU64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", DType::kBF16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
    {"UINT2", {}},
    {"INT2", {}},
    {"FLOAT6E2M3", {}},
    {"FLOAT6E3M2", {}},
}};

// Reads one quoted word of a Python list at text[at], which is its quote. False at the end of the
// text.
bool read_word(std::string_view text, size_t& at, std::string& word) {
  const char quote = text[at++];
  word.clear();
  while (at < text.size() && text[at] != quote) {
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    word += text[at++];
  }
  if (at == text.size()) return false;
  ++at;
  return true;
}

}  // namespace

std::optional<DType> onnx_dtype(int32_t type_code) {
  if (type_code < 0 || static_cast<size_t>(type_code) >= kTypes.size()) return std::nullopt;
  return kTypes[static_cast<size_t>(type_code)].dtype;
}

std::string onnx_type_name(int32_t type_code) {
  if (type_code < 0 || static_cast<size_t>(type_code) >= kTypes.size())
    return fmt::format("type {}", type_code);
  return std::string(kTypes[static_cast<size_t>(type_code)].name);
}

std::string describe(const OnnxNode& node) {
  if (!node.name.empty()) return fmt::format("node '{}' ({})", node.name, node.op_type);
  for (const std::string& output : node.outputs)
    if (!output.empty()) return fmt::format("node of '{}' ({})", output, node.op_type);
  return fmt::format("a node ({})", node.op_type);
}

tl::unexpected<Error> node_error(const OnnxModel& model, const OnnxNode& node, const Error& cause) {
  return error(cause.code, fmt::format("{}: {}: {}", model.origin, describe(node), cause.message));
}

std::string module_of_scopes(std::string_view text) {
  std::vector<std::string> words;
  size_t at = 0;
  const auto skip_blanks = [&] {
    while (at < text.size() && text[at] == ' ') ++at;
  };
  skip_blanks();
  if (at == text.size() || text[at++] != '[') return {};
  for (skip_blanks(); at < text.size() && text[at] != ']'; skip_blanks()) {
    if (text[at] != '\'' && text[at] != '"') return {};
    std::string word;
    if (!read_word(text, at, word)) return {};
    words.push_back(std::move(word));
    skip_blanks();
    if (at < text.size() && text[at] == ',') ++at;
  }
  if (at == text.size() || words.size() < 2) return {};
  return words[words.size() - 2];
}

}  // namespace lowtide::io
