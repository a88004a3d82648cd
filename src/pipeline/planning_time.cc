#include "pipeline/planning_time.h"

#include <algorithm>
#include <utility>

#include "pipeline/prepare.h"

namespace lowtide::pipeline {
namespace {

// What was measured is no promise: machines are shared, and the file has to be written, too, which
// takes a quarter of what its checks take.
constexpr double kSpare = 1.3;
// Of a limit: until a search that is to stop has stopped.
constexpr double kStopping = 0.01;

}  // namespace

void Reserve::note(const Optimized& made) {
  plan = std::max(plan, made.planning_seconds - made.fitting_seconds);
  double known = 0;
  for (const Stage& stage : made.stages)
    if (stage.name == "addresses" || stage.name == "plan" || stage.name == "verify")
      known += stage.seconds;
  behind = std::max(behind, kSpare * known);
}

double Reserve::kept_back(const Limits& limits) const {
  return plan > 0 ? behind + kStopping * limits.max_seconds : 0;
}

// Of each limit by itself: one of them may be none, and a share of that is more than another has.
OptimizeOptions PlanningTime::for_plan(OptimizeOptions options) const {
  for (Limits* limits :
       {&options.order.limits, &options.pack.limits, &options.schedule.remat.limits})
    *limits = limits->after(seconds() + reserve_.kept_back(*limits));
  return options;
}

OptimizeOptions PlanningTime::before_plan(OptimizeOptions options) const {
  return after(for_plan(std::move(options)), reserve_.plan);
}

}  // namespace lowtide::pipeline
