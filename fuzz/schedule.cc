// The text forms of problems: whatever is accepted is consistent and round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plan/remat_text.h"
#include "plan/schedule_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto problem = lowtide::plan::parse_schedule_problem(text, "fuzz")) {
    LT_CHECK(lowtide::plan::check(*problem).has_value(), "a parsed problem passes the check");
    const auto again =
        lowtide::plan::parse_schedule_problem(lowtide::plan::print(*problem), "again");
    LT_CHECK(again.has_value() && *again == *problem, "print and parse give the problem back");
  }
  if (const auto problem = lowtide::plan::parse_order_file(text, "fuzz"))
    LT_CHECK(lowtide::plan::check(*problem).has_value(), "a parsed problem passes the check");
  if (const auto problem = lowtide::plan::parse_remat_file(text, "fuzz"))
    LT_CHECK(lowtide::plan::check(*problem).has_value(), "a parsed problem passes the check");
  return 0;
}
