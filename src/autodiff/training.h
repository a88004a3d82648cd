// A training step from a forward graph: loss, gradients, updates, in the order in which PyTorch
// runs them (forward, backward against the forward order, updates in the order of the parameters).
#pragma once

#include <string>
#include <vector>

#include "autodiff/gradient.h"
#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::autodiff {

struct TrainingOptions {
  LossOptions loss;
  GradientOptions gradient;
  OptimizerOptions optimizer;
  bool update = true;               // off: gradients are outputs, and nothing changes
  std::vector<std::string> frozen;  // parameters that do not train
};

// Trains every float value of Category::kParameter that the loss depends on through gradients;
// running statistics are not among them. The graph given is not changed. Error: kInput (no
// parameter to train, an op without gradient, a loss that does not fit).
Result<ir::Graph> make_training_graph(const ir::Graph& forward,
                                      const TrainingOptions& options = {});

}  // namespace lowtide::autodiff
