// Measured times of a plan's ops, as `lowtide run --profile-out FILE` writes them and a report
// shows them beside the predicted ones ("Measured profiles" in docs/formats.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace lowtide::report {

// Of one op in a step.
struct MeasuredOp {
  int64_t runs = 0;    // of its kernel in a step; 0: it makes views and has none
  double seconds = 0;  // of one run: the median over all runs that were timed
};

struct MeasuredStep {
  std::string device;       // in words
  int64_t steps = 0;        // that were timed
  double step_seconds = 0;  // median, everything included
  // Of a step, their means: of all moves, and in which ops waited for them.
  double transfer_seconds = 0, exposed_seconds = 0;
  IdVector<plan::PlanOpId, MeasuredOp> ops;

  double hidden_seconds() const {
    return transfer_seconds > exposed_seconds ? transfer_seconds - exposed_seconds : 0;
  }
};

std::string print_measured(const plan::Plan& plan, const MeasuredStep& measured);

// Error: kInput, naming origin and what is wrong: no profile, or one of another plan (model,
// sizes, budget, arena, ops or how often they run).
Result<MeasuredStep> read_measured(std::string_view text, const std::string& origin,
                                   const plan::Plan& plan);

}  // namespace lowtide::report
