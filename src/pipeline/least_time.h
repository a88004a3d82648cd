// The least time of a step within a budget, as a bound says it without a search: an order by list
// schedules and the closure cut (remat/bounds/closure_cut.h), in a fraction of a second. It decides
// whether a way to cut or rewrite a step is worth a plan.
//
// Tests: tests/split_test.cc.
#pragma once

#include <optional>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"
#include "plan/schedule_problem.h"

namespace lowtide::pipeline {

// Of schedules of the problem within the budget of `options`, each op once where that fits; none:
// nothing fits.
std::optional<double> least_seconds(plan::ScheduleProblem problem, const OptimizeOptions& options);

// Of schedules of the step as `options` cut and rewrite it, whatever the order of its sums. Error:
// as optimize, but none about budgets.
Result<std::optional<double>> least_seconds(const ir::Graph& forward,
                                            const OptimizeOptions& options);

}  // namespace lowtide::pipeline
