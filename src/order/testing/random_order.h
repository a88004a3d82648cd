// Orders drawn at random, for tests of what begins with any valid one, and where their ops are.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_problem.h"

namespace lowtide::order {

// These ops in a random order that respects what they wait for among themselves. By definition.
inline std::vector<plan::SchedOpId> random_order(const plan::ScheduleProblem& problem,
                                                 std::span<const plan::SchedOpId> ops, Rng& rng) {
  std::vector<plan::SchedOpId> left(ops.begin(), ops.end()), order;
  const auto is_left = [&](plan::SchedOpId op) {
    return std::find(left.begin(), left.end(), op) != left.end();
  };
  const auto is_ready = [&](plan::SchedOpId op) {
    for (const plan::SchedValue& value : problem.values)
      if (std::binary_search(value.readers.begin(), value.readers.end(), op) &&
          is_left(value.producer))
        return false;
    return std::none_of(problem.control.begin(), problem.control.end(),
                        [&](const auto& edge) { return edge.second == op && is_left(edge.first); });
  };
  while (!left.empty()) {
    std::vector<plan::SchedOpId> ready;
    std::copy_if(left.begin(), left.end(), std::back_inserter(ready), is_ready);
    order.push_back(ready[rng.below(ready.size())]);
    std::erase(left, order.back());
  }
  return order;
}

inline std::vector<plan::SchedOpId> random_order(const plan::ScheduleProblem& problem, Rng& rng) {
  std::vector<plan::SchedOpId> ops;
  for (const plan::SchedOpId op : problem.ops.ids()) ops.push_back(op);
  return random_order(problem, ops, rng);
}

inline IdVector<plan::SchedOpId, int64_t> positions_of(
    const std::vector<plan::SchedOpId>& sequence) {
  IdVector<plan::SchedOpId, int64_t> position(sequence.size(), 0);
  for (size_t at = 0; at < sequence.size(); ++at) position[sequence[at]] = static_cast<int64_t>(at);
  return position;
}

}  // namespace lowtide::order
