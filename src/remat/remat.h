// Retention search, our own: simulated annealing over sequences of op runs. Which op runs when and
// how often, so that a training step stays within a byte budget and takes as little extra time as
// can be found, with a proven bound beside it.
//
// The state is the sequence of op runs itself (sequence_state.h), so order and recomputation are
// searched together, any op that may rerun may run any number of times, and reruns may be nested.
// Starting points: the plan from the closure cut (of deep steps also one that takes a part of its
// values from each of the two choices that are best at its price: cut_plan.h), what greedy drops
// make of the order with the least peak (greedy_start.h), the best way along its chain of stages
// (chain_plan.h), that order, the incoming one, and what the caller has (a neighbouring budget's
// plan). The best of them are annealed (anneal.h) by a deterministic portfolio; the best of that is
// annealed again, cooler.
// Series of this get longer and longer and are the same whatever the limit of work is, so more work
// never gives a worse answer. What came in and fits is never made worse.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "plan/outcome.h"
#include "plan/progress.h"
#include "plan/schedule_problem.h"
#include "remat/bounds/time_bound.h"
#include "remat/transfers/tiers.h"

namespace lowtide::remat {

class KnownStarts;  // starts/known_starts.h

struct RematOptions {
  // Ideas, each of which can be switched off.
  // Off: no op runs for the first time before one that came in before it. What is proven holds for
  // all orders.
  bool reorder = true;
  bool order_moves = true;    // runs move; off: the order of first runs stays as it starts
  bool stretch_moves = true;  // whole stretches are rerun, or no longer
  bool exchanges = true;      // a rerun goes and others come, in one move
  bool de_remat = true;       // reruns go, one or a stretch; off: only where others come
  bool repeats = true;        // what one block does, others like it try, too
  bool aimed_drops = true;    // half of the drops where memory overflows; off: blind
  bool aimed_moves = true;    // some moves in the order take bytes away where memory is full
  bool cut_start = true;      // start from the closure cut's plan
  bool mixed_start = true;    // of very many ops: and from a mix of the choices beside its price
  bool order_start = true;    // start from the order with the least peak
  // And from what greedy drops make of it; not where there are `starts`. Of very many ops, or with
  // `mend_starts`: of the starts above the budget.
  bool greedy_start = true;
  bool chain_start = true;   // and from dynamic programming over a chain; likewise
  bool all_starts = false;   // both of these where there are `starts`, too
  bool mend_starts = false;  // what greedy drops make of starts above the budget, too
  bool restarts = true;      // several seeds and cooler rounds; off: one long annealing
  bool cut_bound = true;     // prove a bound and a floor; off: every op once, nothing infeasible
  bool several_cuts = true;  // at several moments together
  bool exact_small =
      true;  // small problems: all states (by_states.h), if a share of work is enough

  // The bound as who will claim it asks for it, once for both (time_bound.h, asked_by_search). Its
  // order is borrowed. None: judged by the search's own order, with a part of the search's work.
  std::optional<TimeBoundOptions> bound = {};

  // As least_peak_order says, where that is known already, and is not asked again; borrowed. Empty:
  // it takes a part of the search's work.
  std::span<const plan::SchedOpId> least_peak_order = {};

  Limits limits{.max_units = 1'500'000'000};
  int64_t proof_units = 0;  // on top, for the bound by branching; only where nothing may move
  uint64_t seed = 1;
  int threads = 1;  // the answer does not depend on it
  // Called between rounds, from the calling thread; may be empty. It may set *limits.cancel.
  plan::ProgressFunction progress;
  // Greedy starts made before, of this problem and others; borrowed. None: each is made anew.
  KnownStarts* known_starts = nullptr;
  // Schedules of the same problem to start from, runs only; those that are not correct are ignored.
  std::vector<std::vector<plan::SchedAction>> starts;
};

struct RematOutcome {
  plan::SolveStatus status = plan::SolveStatus::kLimit;
  std::vector<plan::SchedAction> sequence;  // empty: none within the budget was found
  int64_t peak_bytes = 0;
  double seconds = 0;              // of the step
  double lower_bound_seconds = 0;  // proven for every schedule within the budget
  // The answer to RematOptions::bound, with the certificate; none: it was not needed so far.
  std::optional<TimeBound> bound = {};
  int64_t edits = 0;       // of the retention search: insertions and removals of a run
  bool cut_short = false;  // wall time or the cancel flag, not work, ended the search
  plan::SolveWork work;
  std::optional<CrowdedTier> crowded;  // why there is no sequence, where a tier's room is it
};

// The order of least peak that a search starts from, each op once; the budget makes no difference.
// Its work comes on top of what `options` allow; its wall time, flag and threads are theirs.
plan::ScheduleOutcome least_peak_order(const plan::ScheduleProblem& problem,
                                       const RematOptions& options);

// `problem` must pass plan::check. Without a budget: the order with the least peak, each op once.
// kOptimal: seconds equals the bound (each op once, cuts, cases, or all states). kInfeasible:
// proven that nothing fits. kLimit with an empty sequence: nothing was found; not a proof.
RematOutcome solve(const plan::ScheduleProblem& problem, const RematOptions& options = {});

}  // namespace lowtide::remat
