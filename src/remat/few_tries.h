// Recompute and swap together with little work: a few tries of the line search between the two
// (joint.h), for whoever compares hundreds of problems and plans the best of them later.
//
// The first try is reruns alone, with all of the units; where no reruns keep the budget, those that
// keep the least one that is known (`least_inner_bytes`), and transfers the rest. In
// each of the next ones transfers are to bring out a larger part of what is too much, and reruns
// the rest, with a part of the units; in the last one transfers bring out all of it. The step gets
// shorter with the part that is moved, as long as the link has time for it, and longer from there
// on. So once something fits, it ends with the first try that is worse or fits no more: what takes
// too long for the link is not even tried. Transfers are chosen greedily. Never worse than the
// first try.
#pragma once

#include <cstdint>

#include "plan/schedule_problem.h"
#include "remat/joint.h"
#include "remat/remat.h"

namespace lowtide::remat {

// Of `options` counts: remat (of the first try; without a bound, and with least_peak_order), what
// may move (swap.spans), and which levers are allowed. `problem` has a budget below the peak of
// that order. kLimit with an empty sequence: nothing was found.
// `least_inner_bytes`: reruns alone keep no smaller budget, as far as is known.
RematOutcome solve_in_few_tries(const plan::ScheduleProblem& problem, const JointOptions& options,
                                int64_t least_inner_bytes = 0);

}  // namespace lowtide::remat
