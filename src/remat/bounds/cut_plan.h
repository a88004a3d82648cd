// The plan that a closure cut suggests, made by rules of our own. Up to op t the ops run in
// `order`. What the cut neither keeps nor moves is dropped at its last use before t; its producers
// run again once each, just before the first later need (a reader after t, or another rerun), and
// what they make is kept to its last use. What it moves is stored when it is complete, dropped when
// the copy has ended and its uses before t are over, and loaded as late as the link allows, each
// transfer beside the ops that run meanwhile.
//
// Where layers repeat, the choice that fits is far below the budget: at the best price all layers
// change their mind at once. The choice that does not fit is as good at that price, so is any mix
// of both, and one that just fills the budget costs what the bound proves, but for a part of a
// layer (the primal side of the Lagrangian dual). `mixed_choice` is that: ops up to a place of the
// order do what the choice that fits does, those after it what the other does; the place is found
// by bisection. Reruns then come late in the step, when the backward part has freed much.
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

// Fits at the cut's op, as cut.choice does, which it is where there is none between. `cut` is of
// the same problem, without a link, and has an op.
CutChoice mixed_choice(const plan::ScheduleProblem& problem, const CutBoundResult& cut,
                       std::span<const SchedOpId> order = {});

}  // namespace lowtide::remat
