// Cost stores: whatever is accepted round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cost/store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto store = lowtide::cost::parse_costs(text, "fuzz");
  if (!store) return 0;
  const std::string printed = lowtide::cost::print_costs(*store);
  const auto again = lowtide::cost::parse_costs(printed, "again");
  LT_CHECK(again.has_value() && lowtide::cost::print_costs(*again) == printed,
           "print and parse give the store back");
  return 0;
}
