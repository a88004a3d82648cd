// A schedule as names of ops: what was found on one problem as a start on another, whose ops are
// numbered otherwise and of which there may be more (copies, additions of parts).
//
// Tests: named_runs_test.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::pipeline {

// The ops with these names, in this order, as often as they stand there; names that no op has are
// left out. Before an op that needs what has not run yet comes that; what nobody names runs before
// the first who needs it, or at the end. An op that may not run again runs the first time only. A
// proposal: control edges may forbid it all the same.
std::vector<plan::SchedAction> named_runs(const plan::ScheduleProblem& problem,
                                          std::span<const std::string> names);

// None: no op has the name.
plan::SchedOpId op_named(const plan::ScheduleProblem& problem, std::string_view name);

}  // namespace lowtide::pipeline
