// The largest size of one dimension, such as the batch, whose step still fits a budget.
//
// Two questions with two answers. What is proven: sizes whose floor (what every schedule needs) is
// above the budget cannot fit; the smallest of them is found by doubling and halving, and costs no
// search. What is found: below it, sizes for which a plan within the budget is found are searched
// for by halving, each with a part of the effort; the size above the best gets the whole effort
// before it is given up. Between the two lie sizes that nobody knows about; both ends are told.
// Halving relies on larger sizes needing more memory; every answer that is given was tried.
//
// Sizes may be multiples of a step: a size that parts or halvings of a network need, or a coarse
// answer for a long dimension.
//
// Tests: tests/python/test_plan_budget.py.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lowtide/api.h"

namespace lowtide {

// The sizes that are looked at: multiples of `step` up to `most`.
struct Sizes {
  int64_t step = 1;
  int64_t most = int64_t{1} << 20;
};

struct LargestSize {
  int64_t size = 0, step = 1;
  std::optional<Plan> plan;         // of that size, with the whole effort
  std::optional<int64_t> missed;    // the smallest above it for which none was found
  std::optional<int64_t> proven;    // the smallest size that is proven not to fit
  int64_t proven_bytes = 0;         // what every schedule of that size needs
  int64_t planned = 0, floors = 0;  // sizes for which plans were tried; floors computed
  bool cut_short = false;           // by time or Ctrl-C: larger sizes may have been found
};

using ReadAtSize = std::function<Result<Model>(int64_t size)>;

// `options` must have a budget. Error: that of the least size, if it has no plan; any error that is
// not about the budget.
Result<LargestSize> plan_largest(const ReadAtSize& read, const PlanOptions& options,
                                 Sizes sizes = {});

// One line; and the verdict on the plan with the answer as its member "max".
std::string print(const LargestSize& largest, const std::string& dim);
std::string print_json(const LargestSize& largest, const std::string& dim);

}  // namespace lowtide
