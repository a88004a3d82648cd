// What a user's options come to: those of the pipeline, the kernels that are planned for, and the
// plan object around what the pipeline made. Plan::make and Front::make have it in common.
//
// Tests: c_api_test.cc, tests/python/test_cli.py.
#pragma once

#include <memory>
#include <utility>

#include "api/state.h"
#include "base/result.h"
#include "pipeline/optimize.h"
#include "runtime/kernel.h"

namespace lowtide {

struct Planning {
  PlanOptions asked;  // the user's, without levers by name (levers.h)
  pipeline::OptimizeOptions options;
  std::unique_ptr<runtime::KernelFactory> kernels;  // options.kernels points here
  int threads = 1;                                  // that are planned for
};

// Error: kUsage, naming the flag or the dimension without a size; kInput, for a cost store.
Result<Planning> prepare_planning(const Model& model, const PlanOptions& options);

// A plan, and what it was made with: where levers are open (levers.h), maybe more than at first.
struct Planned {
  pipeline::Optimized optimized;
  Planning planning;
};

// The plan within the budget or the time that the options name; `planning` is theirs. Error:
// kUsage, where they name several; otherwise as pipeline::optimize; of a budget, with what levers
// that were not used would need.
Result<Planned> plan_as_asked(const Model& model, const PlanOptions& options, Planning planning);

std::unique_ptr<Plan::State> finish_plan(pipeline::Optimized optimized, const Planning& planning,
                                         const Model& model);

struct PlanAccess {
  static Plan wrap(std::unique_ptr<Plan::State> state) { return Plan(std::move(state)); }
};

// The pipeline's error with the model's file in front.
tl::unexpected<Error> planning_error(const Model& model, const Error& failure);

}  // namespace lowtide
