// Swap: transfers added to a schedule of runs, so that it fits into the budget; greedy choice, then
// simulated annealing over what moves when (the states are our own). The third way beside keeping a
// buffer and recomputing it: nothing runs again, but the link is busy, and where it is busy for too
// long compute waits.
//
// State: a set of idle spans (idle_spans.h) during which buffers are away. For a set everything
// follows (swap_timing.h): stores as soon as their source is ready, in order; loads as late as they
// still arrive in time, found from the end backwards; a buffer leaves earlier or comes back later
// than that, at the price of waiting, only where memory is still over the budget. So bandwidth is a
// capacity over time, prefetch needs no rule of its own, and time is exact.
//
// Transfer search: greedily the idle span that relieves the run with the largest overflow most per
// second of transfer, until nothing overflows; then annealing over the set, with Metropolis's rule;
// last, what need not move stays: without any one of the spans that are left the budget is not kept
// or the step is longer. MAGIS and OffMate swap in schedules that they fixed before; here the runs
// come from the retention search, and joint.h varies both.
//
// Several slow tiers: everything goes to the first one; where compute then waits, and in the
// annealing, buffers change to others, whose links carry at the same time. What a tier has no room
// for goes to the next (tiers.h); then the transfer search begins again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "plan/outcome.h"
#include "plan/schedule_problem.h"
#include "remat/transfers/idle_spans.h"
#include "remat/transfers/swap_timing.h"
#include "remat/transfers/tiers.h"

namespace lowtide::remat {

struct SwapOptions {
  IdleSpanOptions spans;     // what may move
  bool local_search = true;  // improve the greedy choice
  // What was to move stays: behind the greedy choice, in the search that improves it, and last
  // where nothing needs it (tidy_units). Off: only where something else moves in its place.
  bool de_swap = true;
  // The greedy choice is made in any case.
  Limits limits{.max_units = 20'000'000};
  int64_t tidy_units = 100'000'000;  // beside them: to look for moves without need; 0: it is not
  uint64_t seed = 1;
  // A schedule of the same runs to start from, as some rule moves what they need (baselines); it
  // is borrowed. The answer is no worse, where read_moves (swap_timing.h) understands it.
  std::span<const plan::SchedAction> known = {};

  bool tidies() const { return de_swap && tidy_units > 0; }
};

struct SwapOutcome {
  std::vector<plan::SchedAction> sequence;  // empty: no set of idle spans was found that fits
  int64_t peak_bytes = 0;
  double seconds = 0;  // of the step, waiting included
  plan::SolveWork work;
  std::optional<CrowdedTier> crowded;  // where only the room in the slow tiers was missing
  Moves away;                          // what `sequence` moves, for tidy_transfers
  IdVector<MovableId, uint8_t> tiers;  // where to; the movables of the runs' IdleSpanView
  bool tidy = false;                   // nothing moves without need
};

// `runs`: a valid schedule without transfers. The problem must have a budget and a link.
SwapOutcome add_transfers(const plan::ScheduleProblem& problem,
                          std::span<const plan::SchedAction> runs, const SwapOptions& options = {});

// What add_transfers found for these runs, less what moves without need, as far as
// options.tidy_units go. Never longer.
SwapOutcome tidy_transfers(const plan::ScheduleProblem& problem,
                           std::span<const plan::SchedAction> runs, SwapOutcome found,
                           const SwapOptions& options);

}  // namespace lowtide::remat
