// The multi-cut, our own: Lagrangian relaxation of several moments together, for budgets that bind
// at several, with one minimum cut for each segment between them.
//
// Ops t_1, ..., t_K, each a descendant of the one before, cut every schedule into segments 0 .. K
// at their first runs. With R[k,o] = "o runs in segment k" and S[k,v] = "v stays in memory at t_k":
//
//     R[k,q] <= S[k,u] + R[k, producer of u]     for each u that q reads              (a)
//     S[k+1,v] <= S[k,v] + R[k, producer of v]   what stays was there or is made      (b)
//     sum of R[k,o] >= 1                         over segments where o may first run  (c)
//     bytes of S[k,.] <= capacity at t_k                                              (d)
//
// and the time is the sum of R[k,o] * seconds of o. Prices for (d) and multipliers for (b) and (c)
// move them into the cost; what is left, (a), falls apart into one minimum cut per segment. Any
// prices and multipliers >= 0 give a valid bound, so how they are found needs no proof: by the
// volume algorithm (Barahona and Anbil 2000), steps along an average of the violations that the
// cuts show. One cut without multipliers is the closure cut.
//
// With a link a value is, at each t_k, in one of four states instead of two (multi_cut_ways.h): in
// memory or not, and with a copy in the slow tier or without. Constraint (b) then says that the
// state in which segment k leaves a value is the one in which segment k+1 finds it.
//
//   states    Each state of each value at each t_k has a multiplier for that constraint. It is
//             added to the cost of the segment that begins at t_k and taken off the segment that
//             ends there, so in a true schedule, where both see the same state, it cancels,
//             whatever its sign. Within one segment a value chooses its state at either end freely,
//             and the cheapest change of state depends only on whether its producer runs and
//             whether a run reads it: a minimum cut as before.
//   time      Ops, stores and loads run beside each other. A segment takes at least as long as each
//             of the three alone, and so as any weighted mean of the three; the weights (shares)
//             are multipliers too. Time for which a copy keeps the processor busy is added in full.
//   transfer  A copy that may lie in any of several segments is charged with the smallest share
//             among them, so that it never costs more than it does where it really lies.
//   links     Several links count as one that is as fast as all of them together.
//   residents Those that may move take the cheapest of all their ways through the segments.
//
// Even one such cut proves more than the closure cut with a link, which leaves out what residents
// do before t, what is stored after it, and the copies of both.
//
// Which ops: the closure cut's, then, one at a time, the one that helps most of a few: where the
// cut's plan is most over the budget, and the op that needs most by itself. Few cuts do better than
// many, as an op whose first run may lie in several segments is only half in each.
#pragma once

#include <cstdint>
#include <span>

#include "base/limits.h"
#include "plan/schedule_problem.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/multi_cut_ways.h"

namespace lowtide::remat {

struct MultiCutOptions {
  std::span<const SchedOpId> order;  // as in ClosureCutOptions
  int64_t trial_rounds = 100;        // of steps, to judge a cut
  int64_t final_rounds = 3000;       // for the cuts that were chosen
  // A unit is an arc looked at. What is proven until it is stopped holds.
  Limits limits{.max_units = 500'000'000};
};

struct MultiCutResult {
  double lower_bound_seconds = 0;        // of every schedule within the budget
  double bound_seconds = 0;              // beyond each op once
  int64_t bound_ticks = 0;               // of the whole step
  plan::ProblemCertificate certificate;  // its cuts with prices prove it
  int64_t work = 0;
  bool cut_short = false;  // by the clock or the flag
};

// What `single`, the closure cut of the same problem (feasible, with an op), says of that op, in
// the words of several. With a link it proves more here, or less by what rounding takes.
MultiCutResult as_several(const plan::ScheduleProblem& problem, const CutBoundResult& single);

// At least what that proves.
MultiCutResult multi_cut(const plan::ScheduleProblem& problem, const CutBoundResult& single,
                         const MultiCutOptions& options = {});

}  // namespace lowtide::remat
