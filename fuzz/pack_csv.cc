// The CSV form of packing problems: whatever is accepted is consistent and round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plan/pack_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto problem = lowtide::plan::parse_pack_csv(text, "fuzz")) {
    LT_CHECK(lowtide::plan::check(*problem).has_value(), "a parsed problem passes the check");
    const auto again =
        lowtide::plan::parse_pack_csv(lowtide::plan::print_pack_csv(*problem, nullptr), "again");
    LT_CHECK(again.has_value() && *again == *problem, "print and parse give the problem back");
  }
  return 0;
}
