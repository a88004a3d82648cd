// A schedule of one part of everything (fission/scale.h) within a budget, by a short search: runs
// again what is cheap, and with a link moves what is long not used, whichever costs less. So a
// transfer can replace a split or a rerun while labels are compared (MAGIS, section 5), and not
// only in the plans of those that come out best.
//
// A transfer stands for those of all parts, like a run.
//
// Tests: label_schedule_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "fission/scale.h"
#include "pipeline/label_problem.h"
#include "pipeline/optimize.h"
#include "plan/outcome.h"
#include "remat/starts/known_starts.h"

namespace lowtide::pipeline {

// Labels with a budget: the problem of one part of everything.
struct PosedLabels {
  fission::Scaled scaled;            // with the budget
  plan::ScheduleOutcome order = {};  // the best known, each op once
  double once_seconds = 0;           // of that
};
PosedLabels pose(const LabelProblem& problem, const CutStep& cut, int64_t budget_bytes);

struct LabelSchedule {
  StepRuns runs;  // without what moves
  double seconds = 0;
  int64_t peak_bytes = 0;
};

struct LabelScheduleOptions {
  Limits limits = {};
  // Schedules of other labels. Without them the search makes its own; with `all_starts` these, too.
  std::vector<StepRuns> starts = {};
  bool all_starts = false;
  remat::KnownStarts* known_starts = nullptr;  // of searches before this one; may be none
};

// None: none was found. Levers as `options` allow them. `posed` is of `problem`.
std::optional<LabelSchedule> schedule_within(const LabelProblem& problem, const PosedLabels& posed,
                                             const OptimizeOptions& options,
                                             const LabelScheduleOptions& how);

}  // namespace lowtide::pipeline
