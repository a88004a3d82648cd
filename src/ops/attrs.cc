// Reading attributes of an instance, with messages that name the op and the attribute.
#include <fmt/format.h>

#include "ops/signature.h"

namespace lowtide::ops {
namespace {

const ir::AttrValue* lookup(const Instance& instance, std::string_view name) {
  if (instance.attrs == nullptr) return nullptr;
  const auto found = instance.attrs->find(name);
  return found == instance.attrs->end() ? nullptr : &found->second;
}

tl::unexpected<Error> missing(const Instance& instance, std::string_view name) {
  return error(ErrorCode::kInput, fmt::format("{}: attribute {} is missing", instance.kind, name));
}

tl::unexpected<Error> wrong_type(const Instance& instance, std::string_view name,
                                 std::string_view wanted) {
  return error(ErrorCode::kInput,
               fmt::format("{}: attribute {} must be {}", instance.kind, name, wanted));
}

}  // namespace

bool has_attr(const Instance& instance, std::string_view name) {
  return lookup(instance, name) != nullptr;
}

Result<int64_t> int_attr(const Instance& instance, std::string_view name,
                         std::optional<int64_t> fallback) {
  const ir::AttrValue* value = lookup(instance, name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return missing(instance, name);
  if (const auto* integer = std::get_if<int64_t>(value)) return *integer;
  return wrong_type(instance, name, "an integer");
}

Result<double> real_attr(const Instance& instance, std::string_view name,
                         std::optional<double> fallback) {
  const ir::AttrValue* value = lookup(instance, name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return missing(instance, name);
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return wrong_type(instance, name, "a real");
}

Result<std::string> word_attr(const Instance& instance, std::string_view name,
                              std::optional<std::string> fallback) {
  const ir::AttrValue* value = lookup(instance, name);
  if (value == nullptr && fallback) return *std::move(fallback);
  if (value == nullptr) return missing(instance, name);
  if (const auto* word = std::get_if<std::string>(value)) return *word;
  return wrong_type(instance, name, "a word");
}

Result<ir::Dims> list_attr(const Instance& instance, std::string_view name, size_t count,
                           std::optional<int64_t> fallback) {
  const ir::AttrValue* value = lookup(instance, name);
  if (value == nullptr && fallback) return ir::Dims(count, sym::Expr(*fallback));
  if (value == nullptr) return missing(instance, name);
  const auto* list = std::get_if<ir::Dims>(value);
  if (list == nullptr) return wrong_type(instance, name, "a list");
  if (list->size() != count)
    return error(ErrorCode::kInput, fmt::format("{}: attribute {} has {} entries, not {}",
                                                instance.kind, name, list->size(), count));
  return *list;
}

std::string print(const ir::Dims& dims) {
  std::string text = "[";
  for (const sym::Expr& dim : dims) {
    if (text.size() > 1) text += ", ";
    text += sym::print(dim);
  }
  return text + "]";
}

}  // namespace lowtide::ops
