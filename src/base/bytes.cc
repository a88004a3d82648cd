#include "base/bytes.h"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace lowtide {

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < 1024) return fmt::format("{} B", bytes);
  double scaled = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::abs(scaled) >= 1024 && unit + 1 < kUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", scaled, kUnits[unit]);
}

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"KB", 1e3},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"PB", 1e15}}};

}  // namespace

Result<int64_t> parse_bytes(std::string_view text, std::string_view what) {
  const std::string owned(text);
  const auto bad = [&] {
    return error(ErrorCode::kUsage, fmt::format("{}: '{}' is not a size; write a number and one of "
                                                "B, KiB, MiB, GiB, TiB, KB, MB, GB, TB",
                                                what, text));
  };
  if (owned.empty() || !std::isdigit(static_cast<unsigned char>(owned[0]))) return bad();
  char* end = nullptr;
  const double number = std::strtod(owned.c_str(), &end);
  std::string_view rest(end);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (rest != unit.name) continue;
    const double bytes = number * unit.bytes;
    if (!(bytes <= static_cast<double>(kMaxBytes))) return bad();
    return static_cast<int64_t>(std::llround(bytes));
  }
  return bad();
}

}  // namespace lowtide
