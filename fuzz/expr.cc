// Symbolic sizes as exporters print them.
#include "sym/expr.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto expr = lowtide::sym::parse_expr(text)) {
    const auto again = lowtide::sym::parse_expr(lowtide::sym::print(*expr));
    LT_CHECK(!again.has_value() || *again == *expr, "print and parse give the expression back");
  }
  return 0;
}
