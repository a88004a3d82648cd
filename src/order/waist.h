// Incremental scheduling between narrow waists (MAGIS, section 6.1): where ops of an order have
// changed a little, only an interval around the moment of the peak is scheduled anew.
//
// A search that changes a problem step by step (which ops run in how many parts, say) inherits the
// order of the state before. Most of it is still right, and scheduling all ops again costs far more
// than judging the state. So:
//
//   1. Only other orders around the peak can lower it. If no op in reach of it is touched, the
//      order there is as good as it was, and stays.
//   2. The interval ends at waists: of the positions in reach, before the peak and after it, the
//      ones with the fewest bytes alive. The fewer these are, the less is lost by running the same
//      ops before and after as now: if no set of ops in reach leaves less, nothing is lost (by the
//      argument of order/decompose.h).
//   3. The interval is a problem of its own (order/interval_problem.h). Its op 0 takes as much
//      workspace as the largest step outside of it, so that nobody works at a peak that does not
//      matter.
//   4. One minimum cut (order/interval_cut.h) says what the op at the peak costs in every order of
//      the widest interval. Where that is the peak, the order stays. So it is for nearly every
//      state of a search whose first order was good: it is what a state costs, microseconds.
//   5. Else the portfolio solves the interval, small ones exactly: a narrow one first; one twice as
//      wide where the peak stays inside, and a narrow one again where it has moved elsewhere.
//
// The peak never rises, and where it cannot be lowered the order stays as it was. Counted work
// alone decides. It costs the intervals, and passes over the order for positions and peaks.
//
// MAGIS measures a waist by the number of ops that are independent of one (its nw) and has a DP, no
// bound. Bytes alive are in the profile that every inherited order gets anyway.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/limits.h"
#include "plan/problem_index.h"
#include "plan/schedule_problem.h"
#include "plan/schedule_simulator.h"

namespace lowtide::order {

// An order of a problem with what the simulator says of it.
struct ProfiledOrder {
  std::vector<plan::SchedOpId> sequence;  // each op once
  plan::ScheduleProfile profile;
};

struct WaistOptions {
  // How many ops an interval may have on either side of the peak: at first, and at most.
  int64_t first_reach = 32, most_reach = 256;
  int64_t enough_bytes = 0;  // a peak of no more is not lowered
  // What the cut must promise, as a share of the peak, where it does not promise what is enough.
  double worth = 0;
  Limits limits{.max_units = 100'000};  // of all intervals together
};

struct WaistOutcome {
  ProfiledOrder order;
  int cuts = 0, intervals = 0;  // that were made, that were solved
  int64_t units = 0;
};

// `inherited` is a valid order of `problem`, which passed check, with its profile. `touched` are
// the ops with other sizes or arcs than in the problem for which that order was made; where that is
// not known, all.
WaistOutcome reschedule(const plan::ScheduleProblem& problem, const plan::ProblemIndex& index,
                        ProfiledOrder inherited, std::span<const plan::SchedOpId> touched,
                        const WaistOptions& options = {});

}  // namespace lowtide::order
