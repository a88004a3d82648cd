// When values leave and come back, given the runs and which values move, each once: in the longest
// stretch of time in which nobody uses it. List scheduling: stores as soon as the value is there
// and the link is free, loads as late as they are still in time, each direction one after another.
// Where memory is above the limit, a value leaves before its store would have ended by itself, and
// compute waits for it; or it comes back later than in time, likewise.
//
// The first pass goes through the runs, the second one back from their end. Linear in runs and
// moves.
//
// Tests: pofo_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "baselines/baselines.h"

namespace lowtide::baselines {

// `runs` must be a schedule without moves, and the problem must have a link. Values that cannot
// move (made more than once, written, outputs, used without a pause) stay. Empty: `runs` is no
// schedule.
std::vector<SchedAction> with_moves(const plan::ScheduleProblem& problem,
                                    std::span<const SchedAction> runs,
                                    std::span<const SchedValueId> moved, int64_t memory_bytes);

}  // namespace lowtide::baselines
