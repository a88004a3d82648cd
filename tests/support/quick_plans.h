// How tests of steps in parts plan them: with little work.
#pragma once

#include "cost/device.h"
#include "pipeline/optimize.h"
#include "support/long_checks.h"

namespace lowtide {

inline pipeline::OptimizeOptions quick(const runtime::KernelFactory* kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = kernels;
  options.find_smallest = false;
  options.rewrites.without = {"common-ops", "round-trips"};  // of the step before it is cut
  options.order.limits.max_units = options.order.idle_units = some_of(2'000'000, 10);
  options.pack.limits.max_units = some_of(4'000'000, 10);
  options.pack_retries = 2;
  return options;
}

}  // namespace lowtide
