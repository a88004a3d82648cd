// Optimizers: one update op for each parameter, in place, with the state that the method keeps
// between steps as values of the graph (Category::kOptimizerState, zero before the first step).
// Formulas are PyTorch's; see docs/ops.md.
//
// Tests: training_test.cc.
#pragma once

#include <span>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::autodiff {

enum class OptimizerKind : uint8_t { kSgd, kAdamW };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double weight_decay = 0;
  double momentum = 0;  // SGD; 0: no state
  double beta1 = 0.9;   // AdamW
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct TrainedParameter {
  ir::ValueId parameter;
  ir::ValueId gradient;
};

// Appends the updates in the given order. States are named "sgd_momentum/<parameter>",
// "adam_m/<parameter>" and "adam_v/<parameter>"; the new contents "new/<name>". Error: kInput, when
// an update does not fit its parameter.
Status append_updates(ir::Graph& graph, std::span<const TrainedParameter> parameters,
                      const OptimizerOptions& options);

}  // namespace lowtide::autodiff
