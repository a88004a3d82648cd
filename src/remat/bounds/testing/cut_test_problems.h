// What the tests of bounds from several cuts draw: budgets that bind, and multi-cuts.
#pragma once

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_problem.h"
#include "plan/sequence_simulator.h"
#include "remat/bounds/closure_cut_network.h"

namespace lowtide::remat {

inline double once_seconds(const plan::ScheduleProblem& problem) {
  double sum = 0;
  for (const auto& op : problem.ops) sum += op.seconds;
  return sum;
}

// A budget between what one op needs and what the given order does.
inline int64_t some_budget(const plan::ScheduleProblem& problem, Rng& rng) {
  std::vector<plan::SchedAction> once;
  for (SchedOpId op : problem.ops.ids()) once.push_back(plan::SchedAction::run(op));
  const int64_t top = plan::simulate_sequence(problem, once)->peak_bytes;
  return std::max<int64_t>(1, top - rng.between(1, std::max<int64_t>(1, top / 3)));
}

inline std::vector<SchedOpId> random_multi_cut(const StepGraph& graph, Rng& rng) {
  std::vector<SchedOpId> cuts;
  for (SchedOpId op : graph.problem->ops.ids()) {
    if (rng.below(2) == 0) continue;
    if (cuts.empty() || sides_of(graph, cuts.back())[op] == Side::kAfter) cuts.push_back(op);
  }
  return cuts;
}

}  // namespace lowtide::remat
