// The first plan within a budget of a split to be chosen: what somebody who waits has after seconds
// while the search for good labels takes its time, and what that search need not look for any more.
//
// Folding decides it (fission/scale.h): the fewest even parts of which one, as a small problem,
// keeps the budget with each op once. Its order, mirrored for all parts, is planned as a trial is,
// with hardly any search. Where no number of parts is estimated to fit so, a short search for
// reruns is made in the whole step and in one part of the even parts that promise most, and where
// no such parts fit either, in the first labels with levels that do; its schedule, mirrored, is
// planned with hardly any more search, and where the plan needs more than was estimated, once more
// with estimates within seven eighths of the budget. Where that misses the budget, too (parts that
// wait for each other keep what one part does not show), the last of these parts are planned from
// the schedules that rules and chains make of the step in parts itself, if it has few enough ops.
// Where what is planned first has so many ops that it takes seconds, a plan of the step in one part
// with reruns, if there is one, is told before. The plan is for who does not wait; the search goes
// on as if there were none.
//
// Tests: tests/first_plan_test.cc, tests/split_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "pipeline/trials.h"

namespace lowtide::pipeline {

struct FirstPlan {
  Trials trials;                   // the plan as the best of them, if there is one
  Candidate whole;                 // the whole step, with the least that it takes
  std::optional<Optimized> rough;  // with reruns
};

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FirstPlanTuning {
  // Of the step in parts: up to so many its own schedules are made, in about a second; a plan of
  // more than the latter takes longer than who waits has.
  int64_t few_ops = 4000, many_ops = 12'000;
};

// It is told as progress. A limit of time that is shorter than it takes does not keep it from being
// made. Error: what has nothing to do with the budget.
Result<FirstPlan> first_plan(const ir::Graph& forward, const OptimizeOptions& options,
                             PlanningTime& time, const FirstPlanTuning& tuning = {});

}  // namespace lowtide::pipeline
