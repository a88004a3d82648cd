// Schedules by published rules (baselines) as starts of the searches here: where a rule is asked
// (joint.h says which, and when), no answer is slower than its schedule. The moves of a rule's
// schedule are improved by the transfer search, for its runs.
//
// Tests: by_rule_test.cc.
#pragma once

#include <vector>

#include "base/limits.h"
#include "baselines/baselines.h"
#include "plan/outcome.h"
#include "plan/schedule_problem.h"
#include "remat/joint.h"

namespace lowtide::remat {

struct ByRule {
  std::vector<plan::SchedAction> sequence = {};  // empty: none that keeps budget and options
  std::vector<plan::SchedAction> runs = {};      // of it
  plan::SolveWork work = {};
};

// `problem` has a budget and a link. Levers and the order as `options` allow them.
ByRule by_rule(const plan::ScheduleProblem& problem, baselines::Method method,
               const JointOptions& options, const Limits& limits);

}  // namespace lowtide::remat
