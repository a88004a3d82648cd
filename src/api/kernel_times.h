// Where the time of a measured step goes, and where that is not what the plan said: by kind of op,
// and by kernel, each beside its price.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <vector>

#include "measure/timed_kernels.h"
#include "plan/plan.h"
#include "report/measured.h"
#include "report/run_report.h"

namespace lowtide {

// Of each op the median over the runs that were timed. `times` are of kernels that a session of
// this plan has made: one for each op that computes something, in the order of the ops.
IdVector<plan::PlanOpId, report::MeasuredOp> measured_ops(const plan::Plan& plan,
                                                          const measure::KernelTimes& times);

// Most time first.
std::vector<report::KindTime> times_by_kind(
    const plan::Plan& plan, const IdVector<plan::PlanOpId, report::MeasuredOp>& ops);

// Ops that do the same work in the same way together; those furthest from their price first, by the
// seconds that they are off in a step.
std::vector<report::KernelTime> times_by_kernel(
    const plan::Plan& plan, const IdVector<plan::PlanOpId, report::MeasuredOp>& ops);

}  // namespace lowtide
