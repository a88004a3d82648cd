// What tests of several searches start from and hold against.
#pragma once

#include <numeric>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/action_table.h"

namespace lowtide::remat {

// The runs of every op once, in the order of the problem.
inline std::vector<int> incoming(size_t ops) {
  std::vector<int> order(ops);
  std::iota(order.begin(), order.end(), 0);
  return order;
}
inline std::vector<int> incoming(const ActionTable& table) {
  return incoming(static_cast<size_t>(table.ops()));
}
inline std::vector<int> incoming(const plan::ScheduleProblem& problem) {
  return incoming(problem.ops.size());
}

// A captured step, and a bound that is known of it within a budget.
struct Known {
  const char* name;
  int64_t budget_mib;
  double percent;
};

}  // namespace lowtide::remat
