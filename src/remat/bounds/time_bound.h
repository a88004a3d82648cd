// Lagrangian bounds on the time of every schedule within a budget: closure cut (minimum cuts at one
// moment) and multi-cut (at several) in turn, and what they found as plain data to hand on.
//
// First the closure cut, from one moment. Where it proves something, the multi-cut goes on from
// there, from several moments. Both are judged by an order in which the ops might run; another
// order may show another moment at which memory binds, so two can be asked for. Whoever has the
// answer has what a start (cut_plan.h), a certificate, and a proof by cases (branch_cut.h) need,
// and does not ask again.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "base/limits.h"
#include "plan/schedule_problem.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/multi_cut.h"

namespace lowtide::remat {

struct TimeBoundOptions {
  // Which ops bind is judged by this order (each op once); the given one if empty.
  std::span<const SchedOpId> order = {};
  bool given_order_too = false;  // also by the given order; the higher of both bounds goes on
  bool several = true;           // several moments together
  bool multipliers = false;      // `several` of the result in any case, as certificates need it
  // Of the whole step: where one moment proves that much, several are not worth the work. Looked at
  // with `multipliers` only.
  int64_t enough_ticks = std::numeric_limits<int64_t>::max();
  // The units are those of several moments; one moment has its own (kClosureCut.most_units). What
  // is proven until it is stopped holds.
  Limits limits = MultiCutOptions().limits;
};

struct TimeBound {
  bool feasible = true;                   // false: proven that no schedule keeps within the budget
  double lower_bound_seconds = 0;         // of every schedule within the budget
  int64_t bound_ticks = 0;                // the same, as whole ticks of the whole step
  CutBoundResult by_order;                // one moment, judged by `order`
  CutBoundResult single;                  // one moment: that, or what the given order shows
  std::optional<MultiCutResult> several;  // from `single` on
  int64_t single_work = 0, several_work = 0;

  bool cut_short() const {  // by the clock or the flag
    return single.cut_short || (several && several->cut_short);
  }
};

// `problem` passed plan::check and has a budget.
TimeBound time_bound(const plan::ScheduleProblem& problem, const TimeBoundOptions& options = {});

// The question of a search within `limits`. Who will claim the answer asks in full, as `wanted`,
// and needs not ask again; the search counts no more of it as its own work than it would itself
// have spent (bound_units), and the clock stops it early enough to leave most of the time.
TimeBoundOptions asked_by_search(const std::optional<TimeBoundOptions>& wanted,
                                 const Limits& limits);
int64_t bound_units(const Limits& of_search);

}  // namespace lowtide::remat
