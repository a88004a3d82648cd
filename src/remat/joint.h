// Recompute and swap together under one budget, and the whole front of budgets.
//
// Two searches are joined by one number, the *inner budget*: the retention search (remat.h) brings
// the runs below it by recomputing, then transfers (swap.h) bring what remains below the real one.
// An inner budget equal to the real one is recompute alone; one at the unlimited peak is swap
// alone. Between them the time spent on reruns falls and the time spent on waiting rises with the
// inner budget, so the best is found by narrowing down around the best try, each starting from its
// neighbours' runs. Everything is scored by the one simulator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/remat.h"
#include "remat/swap.h"

namespace lowtide::remat {

struct JointOptions {
  RematOptions remat;     // its limits are those of all tries together
  SwapOptions swap;       // of each try
  bool recompute = true;  // ops may run again
  bool transfers = true;  // buffers may move, if the problem has a link
  int tries = 7;          // inner budgets
};

// With transfers off, or without a link, this is remat::solve, and its bound speaks of schedules
// without transfers. Otherwise the bound is proven for all schedules. `problem` must pass
// plan::check.
RematOutcome solve_joint(const plan::ScheduleProblem& problem, const JointOptions& options);

// One outcome per budget. Each search starts from what its neighbour with more memory found, and a
// schedule found for less memory is kept for more where it is as fast; so with less memory no
// schedule is faster, and none has a larger peak than with more. `budgets` in any order; the limits
// of `options` hold for each.
std::vector<RematOutcome> solve_front(const plan::ScheduleProblem& problem,
                                      std::span<const int64_t> budgets,
                                      const JointOptions& options);

}  // namespace lowtide::remat
