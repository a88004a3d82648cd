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
// With a link a value may also be away, and come back: multi_cut_ways.h says what changes.
//
// Which ops: the closure cut's, then, one at a time, the one that helps most of a few: where the
// cut's plan is most over the budget, and the op that needs most by itself. Few cuts do better than
// many, as an op whose first run may lie in several segments is only half in each.
//
// Cost: a step of the volume algorithm is one maximum flow per segment, each over all ops and
// values. A hundred steps judge an op, three thousand climb with one that was chosen: seconds for a
// training step, with at most four cuts.
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
  // An arc that is looked at counts as one unit. What is proven until it is stopped holds.
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
