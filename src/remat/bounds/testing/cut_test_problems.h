// What the tests of bounds draw or build: budgets that bind, multi-cuts, and deep steps.
#pragma once

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_problem.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/step_graph.h"

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

// A training step of equal layers. Forward, a layer's first op reads what the layer before passed
// on, the second reads the first, the third passes on. Backward, from the last layer to the first,
// one op reads what the first and the second made. Each op takes a second, the second op ten.
struct DeepStep {
  int64_t layers = 100;
  int64_t first_bytes = 4, second_bytes = 8, passed_bytes = 1;
  double second_seconds = 10;
  bool first_may_rerun = true;
};

inline plan::ScheduleProblem deep_step(const DeepStep& shape) {
  plan::ScheduleProblem problem;
  const auto n = static_cast<size_t>(shape.layers);
  const auto back = [n](size_t layer) { return 3 * n + (n - 1 - layer); };
  for (size_t op = 0; op < 4 * n; ++op) {
    const bool is_first = op < 3 * n && op % 3 == 0, is_second = op < 3 * n && op % 3 == 1;
    problem.ops.push_back({.name = {},
                           .seconds = is_second ? shape.second_seconds : 1.0,
                           .may_rerun = op < 3 * n && (!is_first || shape.first_may_rerun),
                           .workspace_bytes = 0});
  }
  for (size_t layer = 0; layer < n; ++layer) {
    const size_t op = 3 * layer, next = layer + 1 < n ? op + 3 : back(layer);
    using plan::value;
    problem.values.push_back(value(shape.first_bytes, op, {op + 1, back(layer)}));
    problem.values.push_back(value(shape.second_bytes, op + 1, {op + 2, back(layer)}));
    problem.values.push_back(value(shape.passed_bytes, op + 2, {next}));
    if (layer > 0)
      problem.values.push_back(value(shape.passed_bytes, back(layer), {back(layer - 1)}));
  }
  return problem;
}

}  // namespace lowtide::remat
