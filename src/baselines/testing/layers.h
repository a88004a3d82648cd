// Chains of equal or drawn layers, as training steps: forward op i makes value i, which op i + 1
// and its own backward op read; backward ops run from the last to the first and pass on a gradient.
#pragma once

#include <vector>

#include "base/rng.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::baselines {

struct Layer {
  int64_t bytes = 1, gradient_bytes = 1;
  double forward_seconds = 1, backward_seconds = 2;
};

// Backward ops run once; forward ops may run again.
inline plan::ScheduleProblem chain_of(const std::vector<Layer>& layers) {
  plan::ScheduleProblem problem;
  const size_t n = layers.size();
  for (size_t i = 0; i < 2 * n; ++i) {
    plan::SchedOp op;
    op.may_rerun = i < n;
    op.seconds = i < n ? layers[i].forward_seconds : layers[2 * n - 1 - i].backward_seconds;
    problem.ops.push_back(op);
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<size_t> readers;
    if (i + 1 < n) readers.push_back(i + 1);
    readers.push_back(2 * n - 1 - i);
    problem.values.push_back(plan::value(layers[i].bytes, i, readers));
  }
  for (size_t i = n; i < 2 * n - 1; ++i)
    problem.values.push_back(plan::value(layers[2 * n - 1 - i].gradient_bytes, i, {i + 1}));
  return problem;
}

// Each layer of two ops, both of which read what the layer before passed on, as its backward op
// does; the inner value is read by the second one and the backward op.
inline plan::ScheduleProblem deep_chain_of(const std::vector<Layer>& layers) {
  plan::ScheduleProblem problem;
  const size_t n = layers.size();
  const auto back = [n](size_t layer) { return 3 * n - 1 - layer; };
  for (size_t i = 0; i < 3 * n; ++i) {
    const Layer& layer = layers[i < 2 * n ? i / 2 : 3 * n - 1 - i];
    plan::SchedOp op;
    op.may_rerun = i < 2 * n;
    op.seconds = i < 2 * n ? layer.forward_seconds : layer.backward_seconds;
    problem.ops.push_back(op);
  }
  for (size_t i = 0; i < n; ++i) {
    problem.values.push_back(plan::value(2 * layers[i].bytes, 2 * i, {2 * i + 1, back(i)}));
    std::vector<size_t> readers;
    if (i + 1 < n) readers = {2 * i + 2, 2 * i + 3, back(i + 1)};
    if (i + 1 == n) readers = {back(i)};
    problem.values.push_back(plan::value(layers[i].bytes, 2 * i + 1, readers));
    if (i > 0)
      problem.values.push_back(plan::value(layers[i].gradient_bytes, back(i), {back(i - 1)}));
  }
  return problem;
}

inline int64_t peak_of_given_order(const plan::ScheduleProblem& problem) {
  std::vector<plan::SchedAction> runs;
  for (const plan::SchedOpId op : problem.ops.ids()) runs.push_back(plan::SchedAction::run(op));
  return plan::simulate_sequence(problem, runs)->peak_bytes;
}

}  // namespace lowtide::baselines
