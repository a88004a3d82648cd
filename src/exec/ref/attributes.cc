#include "base/check.h"
#include "base/element.h"
#include "exec/ref/kernels.h"

namespace lowtide::ref {

int64_t Attributes::integer(std::string_view name, int64_t absent) const {
  const auto found = attrs_.find(name);
  if (found == attrs_.end()) return absent;
  LT_CHECK(std::holds_alternative<int64_t>(found->second), name);
  return std::get<int64_t>(found->second);
}

double Attributes::real(std::string_view name, double absent) const {
  const auto found = attrs_.find(name);
  if (found == attrs_.end()) return absent;
  if (const auto* integer = std::get_if<int64_t>(&found->second))
    return static_cast<double>(*integer);
  LT_CHECK(std::holds_alternative<double>(found->second), name);
  return std::get<double>(found->second);
}

int64_t Attributes::integer_of(DType dtype, std::string_view name, double absent) const {
  const auto found = attrs_.find(name);
  if (found != attrs_.end())
    if (const auto* integer = std::get_if<int64_t>(&found->second)) return *integer;
  return saturated(dtype, real(name, absent));
}

std::string Attributes::word(std::string_view name) const {
  const auto found = attrs_.find(name);
  if (found == attrs_.end()) return "";
  LT_CHECK(std::holds_alternative<std::string>(found->second), name);
  return std::get<std::string>(found->second);
}

Sizes Attributes::list(std::string_view name) const {
  const auto found = attrs_.find(name);
  if (found == attrs_.end()) return {};
  LT_CHECK(std::holds_alternative<ir::Dims>(found->second), name);
  Sizes sizes;
  for (const sym::Expr& dim : std::get<ir::Dims>(found->second)) {
    LT_CHECK(dim.constant().has_value(), name);
    sizes.push_back(*dim.constant());
  }
  return sizes;
}

Sizes Attributes::list(std::string_view name, size_t length, int64_t absent) const {
  return has(name) ? list(name) : Sizes(length, absent);
}

Around around(const Sizes& dims, int64_t axis) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (axis < 0) axis += rank;
  Around split;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t dim = dims[static_cast<size_t>(d)];
    (d < axis ? split.outer : d == axis ? split.axis : split.inner) *= dim;
  }
  return split;
}

Around from_axis(const Sizes& dims, int64_t axis) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (axis < 0) axis += rank;
  Around split;
  for (int64_t d = 0; d < rank; ++d)
    (d < axis ? split.outer : split.axis) *= dims[static_cast<size_t>(d)];
  return split;
}

}  // namespace lowtide::ref
