// The plan that a closure cut suggests, made by rules of our own. Up to op t the ops run in
// `order`. What the cut neither keeps nor moves is dropped at its last use before t; its producers
// run again once each, just before the first later need (a reader after t, or another rerun), and
// what they make is kept to its last use. What it moves is stored when it is complete, dropped when
// the copy has ended and its uses before t are over, and loaded as late as the link allows, each
// transfer beside the ops that run meanwhile.
//
// The plan keeps within the budget while t runs. Elsewhere it may be above: the searches that start
// from it mend that.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::remat {

// Valid for plan::simulate_sequence. Nothing if the cut proves that nothing fits. `order`: each op
// once; the incoming one if empty.
std::optional<std::vector<plan::SchedAction>> plan_from_cut(const plan::ScheduleProblem& problem,
                                                            const CutBoundResult& cut,
                                                            std::span<const SchedOpId> order = {});

}  // namespace lowtide::remat
