// Recompute and swap together under one budget, by a line search of our own between the two.
//
// Two searches are joined by one number, the *inner budget*: the retention search (remat.h) brings
// the runs below it by recomputing, then transfers (swap.h) bring what remains below the real one.
// An inner budget equal to the real one is recompute alone; one at the unlimited peak is swap
// alone. Between them the time spent on reruns falls and the time spent on waiting rises with the
// inner budget, so the best is found by narrowing down around the best try, each starting from its
// neighbours' runs. Everything is scored by the one simulator.
//
// Rounds of this, each with several times the work of the one before and its best to start from,
// are the same whatever the limit of work is: more work never gives a worse answer.
//
// Rounds divide their work among many inner budgets, so where the answer is well above its bound,
// recompute alone and swap alone are searched too, each with all of the work. So no lever makes the
// answer worse than it is without that lever.
#pragma once

#include "plan/schedule_problem.h"
#include "remat/remat.h"
#include "remat/transfers/swap.h"

namespace lowtide::remat {

struct JointOptions {
  RematOptions remat;     // its limits: of all tries together, then of each lever alone
  SwapOptions swap;       // of each try
  bool recompute = true;  // ops may run again
  bool transfers = true;  // buffers may move, if the problem has a link
  int tries = 7;          // inner budgets in a round
};

// With transfers off, or without a link, this is remat::solve, and its bound speaks of schedules
// without transfers. Otherwise the bound is proven for all schedules. `problem` must pass
// plan::check.
RematOutcome solve_joint(const plan::ScheduleProblem& problem, const JointOptions& options);

}  // namespace lowtide::remat
