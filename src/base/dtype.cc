#include "base/dtype.h"

#include <array>

namespace lowtide {
namespace {

constexpr std::array<std::string_view, kDTypes> kDTypeNames = {
    "f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool", "i8", "i16", "u16", "u32", "u64"};
constexpr std::array<std::string_view, kCategories> kCategoryNames = {
    "parameter", "optimizer_state", "gradient", "activation", "temporary", "workspace", "input"};
constexpr std::array<std::string_view, 3> kPhaseNames = {"forward", "backward", "update"};

template <class Enum, size_t n>
std::optional<Enum> find(const std::array<std::string_view, n>& names, std::string_view text) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name(DType dtype) {
  return kDTypeNames[static_cast<size_t>(dtype)];
}
std::optional<DType> parse_dtype(std::string_view text) {
  return find<DType>(kDTypeNames, text);
}

std::string_view name(Category category) {
  return kCategoryNames[static_cast<size_t>(category)];
}
std::optional<Category> parse_category(std::string_view text) {
  return find<Category>(kCategoryNames, text);
}

std::string_view name(Phase phase) {
  return kPhaseNames[static_cast<size_t>(phase)];
}
std::optional<Phase> parse_phase(std::string_view text) {
  return find<Phase>(kPhaseNames, text);
}

}  // namespace lowtide
