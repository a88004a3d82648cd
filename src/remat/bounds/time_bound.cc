#include "remat/bounds/time_bound.h"

#include <algorithm>
#include <utility>

#include "base/work.h"
#include "plan/tick_scale.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct TimeBoundTuning {
  int64_t share_of_work = 10;  // of a search, for its bound
  double share_of_time = 4;    // the same, of seconds, where a bound was asked for
};
constexpr TimeBoundTuning kTimeBound;

class Asking {
 public:
  Asking(const plan::ScheduleProblem& problem, const TimeBoundOptions& options)
      : problem_(problem), options_(options) {}

  TimeBound run() {
    ask_one_moment();
    if (bound_.single.feasible && bound_.single.op) ask_several_moments();
    return std::move(bound_);
  }

 private:
  void ask_one_moment() {
    bound_.by_order = cut_by(options_.order);
    bound_.single = bound_.by_order;
    if (options_.given_order_too && !options_.order.empty()) {
      CutBoundResult given = cut_by({});
      if (given.bound_ticks > bound_.single.bound_ticks) bound_.single = std::move(given);
    }
    bound_.feasible = bound_.single.feasible;
    bound_.lower_bound_seconds = bound_.single.lower_bound_seconds;
    bound_.bound_ticks = plan::TickScale(problem_).once() + bound_.single.bound_ticks;
  }

  CutBoundResult cut_by(std::span<const SchedOpId> order) {
    const CutBoundResult cut = closure_cut(
        problem_, {.order = order, .limits = left().with_units(kClosureCut.most_units)});
    bound_.single_work += cut.work;
    return cut;
  }

  void ask_several_moments() {
    if (options_.multipliers) bound_.several = as_several(problem_, bound_.single);
    const bool enough = bound_.several && bound_.several->bound_ticks >= options_.enough_ticks;
    if (options_.several && !enough) {
      bound_.several =
          multi_cut(problem_, bound_.single, {.order = options_.order, .limits = left()});
      bound_.several_work = std::min(bound_.several->work, options_.limits.max_units);
    }
    if (!bound_.several) return;
    bound_.lower_bound_seconds =
        std::max(bound_.lower_bound_seconds, bound_.several->lower_bound_seconds);
    bound_.bound_ticks = std::max(bound_.bound_ticks, bound_.several->bound_ticks);
  }

  Limits left() const { return options_.limits.after(clock_.seconds()); }

  const plan::ScheduleProblem& problem_;
  const TimeBoundOptions& options_;
  const WorkBudget clock_;
  TimeBound bound_;
};

}  // namespace

TimeBound time_bound(const plan::ScheduleProblem& problem, const TimeBoundOptions& options) {
  return Asking(problem, options).run();
}

int64_t bound_units(const Limits& of_search) {
  return std::min(TimeBoundOptions().limits.max_units,
                  of_search.max_units / kTimeBound.share_of_work);
}

TimeBoundOptions asked_by_search(const std::optional<TimeBoundOptions>& wanted,
                                 const Limits& limits) {
  TimeBoundOptions asked = wanted.value_or(TimeBoundOptions());
  asked.limits = limits.with_units(wanted ? asked.limits.max_units : bound_units(limits));
  if (wanted) asked.limits.max_seconds /= kTimeBound.share_of_time;
  return asked;
}

}  // namespace lowtide::remat
