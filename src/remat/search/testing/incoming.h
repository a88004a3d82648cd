// What tests of several searches start from.
#pragma once

#include <numeric>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/search/action_table.h"

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

}  // namespace lowtide::remat
