// Budgets as a user writes them: "600MiB", "60%", "floor", and ranges of them.
//
//     budgets = item { "," item }
//     item    = amount | amount ".." amount [ ":" count ]
//     amount  = "floor" | number "%" | size
//
// Per cent are of the arena that needs no budget, and the floor is known only once the model is
// planned, so what is read here becomes bytes later.
//
// Tests: front_test.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide {

struct Amount {
  enum class Kind { kBytes, kPercent, kFloor };
  Kind kind = Kind::kBytes;
  int64_t bytes = 0;   // kBytes
  double percent = 0;  // kPercent
};

struct BudgetRange {
  Amount from, to;  // of a single budget the same
  int points = 1;   // both ends included; 1 for a single budget
};

// What the amounts mean for one model.
struct MemoryScale {
  int64_t floor_bytes = 0;      // every schedule is proven to need that
  int64_t unlimited_bytes = 0;  // the arena that needs no budget
};

inline constexpr int kMostBudgets = 1000;

// Error: kUsage, in one line that names `flag`, the part that is wrong and what would be right.
Result<Amount> parse_amount(std::string_view text, std::string_view flag);
// `points`: of ranges that do not say how many.
Result<std::vector<BudgetRange>> parse_budgets(std::string_view text, int points,
                                               std::string_view flag);

int64_t bytes_of(const Amount& amount, const MemoryScale& scale);

// Descending, each once. Of a range that begins below the floor only its first budget lies there;
// the others are spread over what is above the floor.
std::vector<int64_t> bytes_of(const std::vector<BudgetRange>& ranges, const MemoryScale& scale);

}  // namespace lowtide
