// What one op of an interval costs in every order of the interval's ops: the cut bound
// (order/cut_bound.h) with everything before the interval run and nothing behind it.
//
// Ops of the interval that neither lead to the op nor follow from it are free to run before it or
// not; they alone are nodes, and only values that they make or read are in the network. What is
// alive before the op in the order as it is says the rest: the minimum is that, less what these
// values hold there, plus the cut. Around the peak of a training step few ops are free, so it takes
// a walk over the interval and a flow among some tens of nodes.
#pragma once

#include <cstdint>

#include "base/interval.h"
#include "base/work.h"
#include "order/interval_problem.h"

namespace lowtide::order {

// Of the op at position `step` inside the interval. `alive_bytes` are alive before the step. No
// order of the interval has less while the op runs; resident bytes included.
int64_t interval_cut(const PlacedOrder& order, Interval interval, int64_t step, int64_t alive_bytes,
                     WorkBudget& work);

}  // namespace lowtide::order
