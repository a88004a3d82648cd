#include "api/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/printable.h"

namespace lowtide {
namespace {

constexpr int64_t kFineness = 1000;  // of the steps of a range, as a part of its end
constexpr size_t kMostShown = 40;    // bytes of a wrong budget in an error

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

tl::unexpected<Error> refuse(std::string_view flag, std::string_view text,
                             std::string_view wanted) {
  return error(ErrorCode::kUsage,
               fmt::format("{}: '{}' {}", flag, printable(text, kMostShown), wanted));
}

// The range that is meant, from less to more. Ends in the same unit must stand that way.
Result<BudgetRange> parse_range(std::string_view text, size_t dots, int points,
                                std::string_view flag) {
  BudgetRange range{{}, {}, points};
  std::string_view end = text.substr(dots + 2);
  if (const size_t colon = end.find(':'); colon != std::string_view::npos) {
    const std::string_view count = trim(end.substr(colon + 1));
    const auto parsed = std::from_chars(count.data(), count.data() + count.size(), range.points);
    if (parsed.ec != std::errc() || parsed.ptr != count.data() + count.size() || range.points < 2 ||
        range.points > kMostBudgets)
      return refuse(flag, text,
                    fmt::format("does not end in a number of budgets from 2 to {}, as in "
                                "40%..100%:10",
                                kMostBudgets));
    end = end.substr(0, colon);
  }
  LT_ASSIGN(range.from, parse_amount(text.substr(0, dots), flag));
  LT_ASSIGN(range.to, parse_amount(end, flag));
  const bool falls = range.from.kind == range.to.kind &&
                     (range.from.bytes > range.to.bytes || range.from.percent > range.to.percent);
  if (falls) return refuse(flag, text, "begins above its end; write the smaller budget first");
  return range;
}

void append_range(const BudgetRange& range, const MemoryScale& scale,
                  std::vector<int64_t>& budgets) {
  auto [low, high] = std::minmax({bytes_of(range.from, scale), bytes_of(range.to, scale)});
  budgets.push_back(low);
  if (range.points == 1) return;
  if (low < scale.floor_bytes && scale.floor_bytes < high) low = scale.floor_bytes;
  // Budgets that lie closer together tell nothing.
  const int64_t least_step = std::max<int64_t>(1, high / kFineness);
  const auto steps =
      static_cast<int>(std::clamp<int64_t>((high - low) / least_step, 1, range.points - 1));
  for (int i = 1; i <= steps; ++i) {
    const double along = static_cast<double>(i) / steps;
    budgets.push_back(
        i == steps ? high : low + static_cast<int64_t>(along * static_cast<double>(high - low)));
  }
}

}  // namespace

Result<Amount> parse_amount(std::string_view text, std::string_view flag) {
  text = trim(text);
  Amount amount;
  if (text == "floor") {
    amount.kind = Amount::Kind::kFloor;
    return amount;
  }
  if (text.ends_with('%')) {
    amount.kind = Amount::Kind::kPercent;
    const std::string_view number = trim(text.substr(0, text.size() - 1));
    const auto parsed =
        std::from_chars(number.data(), number.data() + number.size(), amount.percent);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() ||
        !(amount.percent > 0 && amount.percent <= 100))
      return refuse(flag, text, "is not a share above 0% and at most 100%, as in 60%");
    return amount;
  }
  const Result<int64_t> bytes = parse_bytes(text, flag);
  if (!bytes)
    return error(ErrorCode::kUsage,
                 fmt::format("{}; or a share such as 60%, or floor", bytes.error().message));
  amount.bytes = *bytes;
  return amount;
}

Result<std::vector<BudgetRange>> parse_budgets(std::string_view text, int points,
                                               std::string_view flag) {
  std::vector<BudgetRange> ranges;
  int all = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = trim(text.substr(begin, comma - begin));
    begin = comma + 1;
    BudgetRange range;
    if (const size_t dots = item.find(".."); dots != std::string_view::npos) {
      LT_ASSIGN(range, parse_range(item, dots, points, flag));
    } else {
      LT_ASSIGN(range.from, parse_amount(item, flag));
      range.to = range.from;
    }
    ranges.push_back(range);
    all += range.points;
    if (all > kMostBudgets)
      return refuse(flag, text, fmt::format("is more than {} budgets", kMostBudgets));
  }
  return ranges;
}

int64_t bytes_of(const Amount& amount, const MemoryScale& scale) {
  switch (amount.kind) {
    case Amount::Kind::kBytes:
      return amount.bytes;
    case Amount::Kind::kPercent:
      return static_cast<int64_t>(static_cast<double>(scale.unlimited_bytes) * amount.percent /
                                  100);
    case Amount::Kind::kFloor:
      return scale.floor_bytes;
  }
  return 0;
}

std::vector<int64_t> bytes_of(const std::vector<BudgetRange>& ranges, const MemoryScale& scale) {
  std::vector<int64_t> budgets;
  for (const BudgetRange& range : ranges) append_range(range, scale, budgets);
  std::sort(budgets.begin(), budgets.end(), std::greater<>());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

}  // namespace lowtide
