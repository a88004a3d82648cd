// Instances of ops from short texts, for tests: "f32[2,batch,3] i64[4] -" are three operands, the
// last one absent.
#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/op_table.h"
#include "ops/signature.h"

namespace lowtide::ops {

inline std::vector<std::optional<Type>> operands(const std::string& text) {
  std::vector<std::optional<Type>> types;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    types.emplace_back();
    if (word == "-") continue;
    const size_t open = word.find('[');
    Type type;
    type.dtype = *parse_dtype(word.substr(0, open));
    std::istringstream dims(word.substr(open + 1, word.size() - open - 2));
    for (std::string dim; std::getline(dims, dim, ',');) {
      const auto extent = sym::parse_expr(dim);
      LT_CHECK(extent.has_value(), dim);
      type.dims.push_back(*extent);
    }
    types.back() = std::move(type);
  }
  return types;
}

inline std::string print(const Type& type) {
  std::string dims;
  for (const sym::Expr& dim : type.dims)
    dims += fmt::format("{}{}", dims.empty() ? "" : ",", sym::print(dim));
  return fmt::format("{}[{}]", name(type.dtype), dims);
}

// An instance that keeps what it is made of.
struct Example {
  std::string kind;
  ir::Attrs attrs;
  std::vector<std::optional<Type>> inputs;

  Example(std::string kind_in, ir::Attrs attrs_in, const std::string& text)
      : kind(std::move(kind_in)), attrs(std::move(attrs_in)), inputs(operands(text)) {}
  Instance instance() const { return {.kind = kind, .attrs = &attrs, .inputs = inputs}; }
};

// "f32[2,3] f32[3]" of the inferred outputs, or the error's message.
inline std::string inferred(const Example& example,
                            std::vector<std::pair<sym::Expr, sym::Expr>>* facts = nullptr) {
  const auto outputs = infer(example.instance(), facts);
  if (!outputs) return outputs.error().message;
  std::string text;
  for (const OutputType& output : *outputs) text += (text.empty() ? "" : " ") + print(output.type);
  return text;
}

}  // namespace lowtide::ops
