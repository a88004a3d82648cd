// Plans for many budgets, found together.
//
// Half of a budget's work starts from its neighbour with more memory, the other half from what was
// found there and from its neighbour with less. Then each budget takes the fastest of all plans
// that keep it, so the front is monotone: with less memory no plan is faster, and none has a larger
// arena than with more. With --split auto each budget has its own parts (front_in_parts.h).
//
// Tests: front_test.cc, degenerate_test.cc, src/api/front_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

struct FrontPoint {
  int64_t budget_bytes = 0;
  std::optional<Optimized> made = {};  // none: no plan was found
  std::string missed = {};             // why not
  bool infeasible = false;             // and that it cannot be is proven
};

struct Front {
  std::vector<FrontPoint> points;  // budgets descending, each once; at least one has a plan
  Optimized unlimited;             // without any budget
  int64_t floor_bytes = 0;         // proven: no schedule needs less
  double planning_seconds = 0;
};

// The budgets to try, once the floor and the arena of the unlimited plan are known.
using ChooseBudgets = std::function<std::vector<int64_t>(int64_t floor, int64_t unlimited)>;

// The limits of `options` are those of each budget. When schedule.remat.limits.cancel is set, what
// was not searched yet is missed, or has its neighbour's plan. Errors as of optimize, but for
// single budgets that were missed: only where all were, the largest one's.
Result<Front> optimize_front(const ir::Graph& forward, const OptimizeOptions& options,
                             const ChooseBudgets& choose);

// The same where the parts are given, so that one step serves all budgets: `options.split` is not
// chosen().
Result<Front> optimize_front_as_given(const ir::Graph& forward, const OptimizeOptions& options,
                                      const ChooseBudgets& choose);

}  // namespace lowtide::pipeline
