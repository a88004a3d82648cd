// The floor: the least budget that any schedule can keep, and the op that sets it. The higher of
// two bounds.
//
// cut_floor: without a link one minimum cut per op. While op t runs for the first time, its inputs,
// outputs and workspace are present, less what it reuses in place, beside the residents that cannot
// move. Without a link also present is whatever is needed later and cannot come back: the least
// bytes that cut all descendants' needs from the producers that may not run again
// (closure_cut_network.h, with reruns for free). With a link everything else may be elsewhere, and
// so may residents that t does not need.
//
// Without a link, too: what it takes that the inputs of an op are there together
// (backward_search.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/bounds/closure_cut_network.h"

namespace lowtide::remat {

struct Floor {
  int64_t bytes = 0;  // of the whole device
  SchedOpId op;       // that sets it; none if residents alone do
  // By backward search: whose inputs the op is on the way to, and what the verifier needs of it.
  std::optional<plan::BackwardWayOf<plan::ProblemIds>> way;
  int64_t resident_bytes = 0, workspace_bytes = 0;
  std::vector<SchedValueId> present;  // inputs and outputs of the op, ascending
  std::vector<SchedValueId> kept;     // must stay for later ops, ascending
};

// `problem` passed plan::check; its budget is not looked at.
Floor floor_of(const plan::ScheduleProblem& problem);
Floor cut_floor(const plan::ScheduleProblem& problem);

}  // namespace lowtide::remat
