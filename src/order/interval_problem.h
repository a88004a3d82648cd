// An interval of an order as a ScheduleProblem of its own: what is alive across is resident, what
// the interval frees of what is there before is made by one op before all others, and what is read
// behind it stays.
//
// For every order of the interval's ops that respects their arcs, the steps and what they reuse in
// place are those of the whole order with the interval in that order. (Both are decided by which
// readers have run, and before and after the interval that is the same set of ops.)
//
// Time and memory are those of the interval and of the readers of what it makes and reads, but for
// one array over all values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/interval.h"
#include "plan/problem_index.h"
#include "plan/schedule_problem.h"

namespace lowtide::order {

// A valid order of a problem, in which each op occurs once, and where.
struct PlacedOrder {
  const plan::ScheduleProblem& problem;
  const plan::ProblemIndex& index;
  std::span<const plan::SchedOpId> sequence;
  const IdVector<plan::SchedOpId, int64_t>& position;
};

struct IntervalProblem {
  // Op 0 makes what is there before and freed inside; op i is at position begin + i - 1.
  plan::ScheduleProblem problem;
  IdVector<plan::SchedValueId, plan::SchedValueId> value;  // as the whole problem has it
};

// Positions of the order; `alive_bytes` are alive before the first, resident bytes included.
IntervalProblem interval_problem(const PlacedOrder& order, Interval interval, int64_t alive_bytes);

}  // namespace lowtide::order
