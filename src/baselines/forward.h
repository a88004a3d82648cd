// The forward part of a training step, which a bare problem does not name, by the closure cut's
// idea of a middle: the op that most bytes pass by, in values that it or what it depends on makes
// and that ops read which depend on it. As a rule that is the loss or its neighbour. It and all
// that it depends on are the forward part.
//
// A linear look at the problem for each of the 64 ops at which most is present.
//
// Tests: chen_test.cc.
#pragma once

#include "baselines/baselines.h"
#include "plan/problem_index.h"

namespace lowtide::baselines {

// 1: of the forward part. All 0 where no value passes any op by.
IdVector<SchedOpId, char> forward_part(const plan::ScheduleProblem& problem,
                                       const plan::ProblemIndex& index);

}  // namespace lowtide::baselines
