// The one simulator that scores every order, whichever solver made it. By definition, in one pass
// (see schedule_problem.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/problem_index.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

struct ScheduleProfile {
  int64_t peak_bytes = 0;            // resident bytes included
  size_t peak_step = 0;              // first step at the peak
  std::vector<int64_t> step_bytes;   // bytes present while each step runs, resident bytes included
  std::vector<int64_t> after_bytes;  // bytes that remain after each step
  std::vector<InPlacePair> reused;   // the in-place pairs that were taken, in order of time
};

// Runs `sequence`, in which each op occurs exactly once. `in_place` false: no pair is taken (how
// eager frameworks run). Error: kInput, naming the op that occurs twice, is missing, or runs before
// its input or a control predecessor.
Result<ScheduleProfile> simulate(const ScheduleProblem& problem,
                                 std::span<const SchedOpId> sequence, bool in_place = true);
// By whoever has the problem's lists.
Result<ScheduleProfile> simulate(const ScheduleProblem& problem, const ProblemIndex& index,
                                 std::span<const SchedOpId> sequence, bool in_place = true);

}  // namespace lowtide::plan
