// What tests of several searches start from.
#pragma once

#include <vector>

#include "plan/schedule_problem.h"
#include "remat/search/action_table.h"

namespace lowtide::remat {

// The runs of every op once, in the order of the problem.
inline std::vector<SchedOpId> incoming(const ActionTable& table) {
  return {table.ops().begin(), table.ops().end()};
}
inline std::vector<SchedOpId> incoming(const plan::ScheduleProblem& problem) {
  return {problem.ops.ids().begin(), problem.ops.ids().end()};
}

// Ops by their numbers.
inline SchedOpId op_at(int number) {
  return SchedOpId(static_cast<size_t>(number));
}
inline std::vector<SchedOpId> ops_at(const std::vector<int>& numbers) {
  std::vector<SchedOpId> ops;
  for (const int number : numbers) ops.push_back(op_at(number));
  return ops;
}

inline std::vector<plan::SchedAction> actions_of(const std::vector<SchedOpId>& runs) {
  std::vector<plan::SchedAction> actions;
  for (const SchedOpId op : runs) actions.push_back(plan::SchedAction::run(op));
  return actions;
}

}  // namespace lowtide::remat
