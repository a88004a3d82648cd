// Bytes: sizes, their checked arithmetic, and how people write them. Sizes are int64_t with the
// suffix _bytes; every product or sum of sizes that comes from input goes through checked_mul /
// checked_add, which answer nothing on overflow.
//
// Tests: base_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lowtide {

// Sums of sizes above this are refused at the doors, so that planners may add without checks.
inline constexpr int64_t kMaxBytes = int64_t{1} << 62;

std::optional<int64_t> checked_add(int64_t a, int64_t b);
std::optional<int64_t> checked_mul(int64_t a, int64_t b);

// Rounds up to a multiple of `alignment` (> 0). `bytes` must be at most kMaxBytes.
constexpr int64_t align_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// "1.50 GiB", "312 B": binary units, for people. Exact bytes belong in JSON.
std::string format_bytes(int64_t bytes);

// Reads "600MiB", "1.5 GiB", "2GB" (decimal), "4096" (bytes). Exact, and rounded down where a
// fraction of a unit is no whole number of bytes ("0.1KiB" is 102); a fraction of a byte is refused
// ("1.5B"). Error: kUsage, naming `what` (the flag) and the accepted units.
Result<int64_t> parse_bytes(std::string_view text, std::string_view what);

// Reads the speed of a link, "12GB/s" or "2GiB/s": a size above 0 with "/s" behind it. Error:
// kUsage, naming `what`.
Result<int64_t> parse_bytes_per_second(std::string_view text, std::string_view what);

}  // namespace lowtide
