#include "base/bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

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
  int64_t bytes;
};
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", int64_t{1} << 10},
                                          {"MiB", int64_t{1} << 20},
                                          {"GiB", int64_t{1} << 30},
                                          {"TiB", int64_t{1} << 40},
                                          {"KB", 1'000},
                                          {"kB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000},
                                          {"PB", 1'000'000'000'000'000}}};

// The digits that `text` begins with; they are taken off it.
std::string_view take_digits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// whole.fraction * unit, rounded down; nothing beyond kMaxBytes. Exact: no floating point.
std::optional<int64_t> scaled(std::string_view whole, std::string_view fraction, int64_t unit) {
  int64_t number = 0;
  for (const char digit : whole) {
    number = number * 10 + (digit - '0');
    if (number > kMaxBytes / unit) return std::nullopt;
  }
  // Digits beyond the 18th are worth less than a byte in every unit.
  unsigned __int128 part = 0, power = 1;
  for (const char digit : fraction.substr(0, 18)) {
    part = part * 10 + static_cast<unsigned>(digit - '0');
    power *= 10;
  }
  const auto rest = static_cast<int64_t>(part * static_cast<uint64_t>(unit) / power);
  const int64_t bytes = number * unit + rest;
  return bytes > kMaxBytes ? std::nullopt : std::optional(bytes);
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view text, std::string_view what) {
  const auto bad = [&](std::string_view wanted) {
    return error(ErrorCode::kUsage, fmt::format("{}: '{}' is {}", what, text, wanted));
  };
  constexpr std::string_view kForm =
      "not a size; write a number and one of B, KiB, MiB, GiB, TiB, KB, MB, GB, TB, PB";
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  const bool has_point = !whole.empty() && rest.starts_with('.');
  if (has_point) {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
  }
  if (whole.empty() || (has_point && fraction.empty())) return bad(kForm);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == rest; });
  if (unit == kUnits.end()) return bad(kForm);
  if (has_point && unit->bytes == 1) return bad("not a whole number of bytes");
  const auto bytes = scaled(whole, fraction, unit->bytes);
  if (!bytes) return bad(fmt::format("more than {} bytes", kMaxBytes));
  return *bytes;
}

Result<int64_t> parse_bytes_per_second(std::string_view text, std::string_view what) {
  if (!text.ends_with("/s"))
    return error(
        ErrorCode::kUsage,
        fmt::format("{}: '{}' is not a speed; write a size and /s, as in 2GiB/s", what, text));
  LT_ASSIGN(const int64_t bytes, parse_bytes(text.substr(0, text.size() - 2), what));
  if (bytes == 0)
    return error(ErrorCode::kUsage,
                 fmt::format("{}: '{}' moves nothing; a link has more than 0 B/s", what, text));
  return bytes;
}

}  // namespace lowtide
