// The rematerialization pass of XLA (HloRematerialization of OpenXLA; the heuristic is the code, no
// paper describes it), with its host offloading. It walks over the sequence and knows what is
// present; where that is above the limit it changes what has already run, until it is not:
//
//   recompute  A block of 1 to 8 neighbouring runs whose values leave here. Each of them runs again
//              before the next use of what it makes, or of what it reads, if that comes sooner, so
//              that no operand lives longer than it must. All later uses are the new run's. Where
//              nobody used a value yet this only moves its run.
//   offload    A value that leaves here and comes back for its next use, only if both copies are
//              hidden behind what runs before and after.
//
// XLA counts as cost the inverse of the bytes that leave and no time at all; blocks are tried in
// the sizes 1, 2, 3-4, 5-8 and the next size only where no smaller one helps. Beside that cost,
// seconds per byte is tried, and each with and without offloading; the fastest schedule is the
// answer. What the link has time for is booked against the seconds of the runs, each direction for
// itself, so that no two copies count on the same time (XLA does not look).
//
// Cost: one look at all runs so far for each change.
#pragma once

#include "baselines/judge.h"

namespace lowtide::baselines {

void add_xla(const plan::ScheduleProblem& problem, Judge& judge);

}  // namespace lowtide::baselines
