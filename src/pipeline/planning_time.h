// The wall time of a search that makes many plans, the first one included, within the limit of its
// options: a safety stop, which is to hold for the plan that is handed out, not for searches alone.
//
// What a plan takes beside its search (the graph in parts, the problem, floors, addresses, claims,
// the gate) is no matter of limits: it is as long as it is. So it is kept back, and what it is the
// plans that were made so far tell: the most that any of them took, as what comes next may be as
// large. A search that is to end with a plan ends early by what comes behind it, what comes before
// a plan by all of it, and no further plan is begun where less than that is left. Without a limit
// nothing of this is ever seen.
//
// Tests: planning_time_test.cc, tests/first_plan_test.cc.
#pragma once

#include "base/clock.h"
#include "base/limits.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// In seconds of wall time; nothing before the first plan is there.
struct Reserve {
  double plan = 0;    // beside its search
  double behind = 0;  // from the end of a search on, with room for the file that is written

  void note(const Optimized& made);
  // Of those limits, for the end of a plan; a part of them is for searches that look at the clock
  // seldom.
  double kept_back(const Limits& limits) const;
  bool is_late(const Limits& limits, double spent) const {
    return limits.stop_after(spent + kept_back(limits) + plan);
  }
};

// One thread makes it, notes plans and asks whether it is late. Others may ask for options
// meanwhile (trials.cc), while nothing is noted: that only reads.
class PlanningTime {
 public:
  double seconds() const { return seconds_since(start_); }
  void note(const Optimized& made) {
    reserve_.note(made);
    has_plan_ = true;
  }

  // The options for a plan, and for what comes before one.
  OptimizeOptions for_plan(OptimizeOptions options) const;
  OptimizeOptions before_plan(OptimizeOptions options) const;
  // Whether no further plan is to be begun, or somebody has cancelled. That it was is remembered.
  bool is_late(const OptimizeOptions& options) {
    const bool is_late = reserve_.is_late(options.schedule.remat.limits, seconds());
    was_late_ |= is_late;
    return is_late;
  }
  bool was_late() const { return was_late_; }
  // Whether any plan was made, so that one can be handed out.
  bool has_plan() const { return has_plan_; }

 private:
  const Clock::time_point start_ = Clock::now();
  Reserve reserve_;
  bool was_late_ = false, has_plan_ = false;
};

}  // namespace lowtide::pipeline
