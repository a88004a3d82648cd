// What all methods here share: each schedule that a method suggests is scored by the one simulator,
// and the fastest that is valid and within the budget is kept. So nothing that a method believes
// about memory or time reaches an answer.
//
// Tests: baselines_oracle_test.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/work.h"
#include "baselines/baselines.h"
#include "plan/schedule_problem.h"

namespace lowtide::baselines {

struct Score {
  int64_t peak_bytes = 0;
  double seconds = 0;
  bool fits = false;
};

class Judge {
 public:
  // Borrows `problem`.
  Judge(const plan::ScheduleProblem& problem, const Limits& limits);

  // Nothing if the sequence is no schedule. Of equally fast ones the first is kept.
  std::optional<Score> score(const std::vector<SchedAction>& sequence);

  int64_t budget() const { return budget_; }
  double once_seconds() const { return once_seconds_; }
  double best_seconds() const {  // infinite: none fits so far
    return best_.found() ? best_.seconds : std::numeric_limits<double>::infinity();
  }
  WorkBudget& work() { return work_; }
  BaselineOutcome outcome() const;

 private:
  const plan::ScheduleProblem& problem_;
  WorkBudget work_;
  int64_t budget_ = 0;
  double once_seconds_ = 0;
  BaselineOutcome best_;
};

// The order that came in, each op once.
std::vector<SchedAction> given_order(const plan::ScheduleProblem& problem);

}  // namespace lowtide::baselines
