// How tests of steps in parts that are chosen by a budget plan them: training steps, with little
// work.
#pragma once

#include "autodiff/training.h"
#include "cost/device.h"
#include "pipeline/optimize.h"

namespace lowtide {

inline pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.schedule.remat.limits.max_units = 1'000'000;
  return options;
}

// Of each search, where many plans are made.
inline void spend_little(pipeline::OptimizeOptions& options) {
  options.order.limits.max_units = options.pack.limits.max_units = 2'000'000;
  options.schedule.swap.limits.max_units = options.schedule.swap.tidy_units = 2'000'000;
}

}  // namespace lowtide
