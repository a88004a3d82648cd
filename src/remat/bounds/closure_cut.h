// The closure cut, our own: Lagrangian relaxation of what memory holds at one moment, with a
// minimum cut for each price. It gives a lower bound on the time of every schedule within the
// budget, whatever its order and whatever it recomputes or moves, and a choice of what to keep that
// a plan can start from.
//
// For any op t, once it has run for the first time, what is needed later is present, runs again or
// is loaded (closure_cut_network.h). What is present beside t's own inputs and outputs must
// fit into the budget. Pricing that capacity at lambda gives
//
//     extra time >= least cut(lambda) - lambda * capacity        (any lambda >= 0)
//
// which is concave in lambda: each choice of what stays is a line, the bound is the lowest line.
// Its maximum (the Lagrangian dual) is found by cutting planes in one variable (Kelley 1960): where
// the lowest of the lines known so far is highest the next cut is made, a handful in all; the line
// that falls is a choice that fits.
//
// With a link the time is bounded from both ends: before t there is time for the stores, after it
// for the loads, and each side also has to run its ops. Two shares weigh the sides (CutPrices);
// the bound is concave in price and shares together, and a grid with refinement around its best
// point finds nearly the maximum. Lines of earlier cuts bound every grid point from above, so most
// points need no cut.
//
// Ops t are tried by the bytes they need in a known order, most first. An op below the budget there
// proves nothing (all that stays is a choice that fits). Before cuts are made for an op, the
// choices that were best elsewhere are carried over: if their lines show that the op cannot prove
// more, it is skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "plan/schedule_problem.h"
#include "plan/schedule_simulator.h"
#include "remat/bounds/closure_cut_network.h"

namespace lowtide::remat {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ClosureCutTuning {
  // What a cut takes at most where its caller limits the time alone: about 2 s of one core.
  int64_t most_units = 400'000'000;
  int64_t most_ops = 64;     // for which cuts are made
  int64_t patience = 24;     // ops in a row that prove nothing new before it ends
  int64_t others = 4;        // ops tried first, handed on to cuts at several ops
  int most_steps = 40;       // lines for given shares; fewer than ten are needed
  int64_t first_shares = 4;  // steps from 0 to 1 of the first grid of shares
  int64_t last_shares = 64;  // of the last one; each has half the steps of the one before
  int around = 2;            // steps of later grids to each side of the best point
  double same_line = 1e-9;   // of the value, and with it
  double same_ticks = 4;     // ticks: a line less below the known ones is no news
};
inline constexpr ClosureCutTuning kClosureCut;

struct ClosureCutOptions {
  // Which ops bind is judged by this order (each op once); the incoming one if empty.
  std::span<const SchedOpId> order;
  // An arc that is looked at counts as one unit. What is proven until it is stopped holds.
  Limits limits{.max_units = kClosureCut.most_units};
  int64_t patience = kClosureCut.patience;  // ops in a row that prove nothing new
  double tolerance = 0;  // of what is proven beyond each op once: no cut is made for less
  bool swap = true;      // off: as if there were no link (a bound on recomputation alone)
};

struct CutBoundResult {
  bool feasible = true;            // false: proven that no schedule keeps within the budget
  double lower_bound_seconds = 0;  // of every schedule within the budget
  double bound_seconds = 0;        // that, beyond each op once
  // What proves it; absent if nothing more than each op once is proven.
  std::optional<SchedOpId> op;
  CutPrices prices;
  int64_t bound_ticks = 0;  // beyond each op once
  int64_t capacity_bytes = 0;
  CutChoice choice;  // the cheapest that fits among those seen
  // And that does not: both have the best price between them. If nothing fits at the op, what needs
  // the fewest bytes there.
  CutChoice over;
  std::vector<SchedOpId> others;  // ops that bind, too: those that need most, and former best ones
  int64_t cuts = 0, work = 0;
  bool cut_short = false;  // by the clock or the flag
};

// `problem` passed plan::check and has a budget.
CutBoundResult closure_cut(const plan::ScheduleProblem& problem,
                           const ClosureCutOptions& options = {});

// By whoever has simulated `options.order`, which is not empty then; its link, if it has one,
// counts whatever `options.swap` says.
CutBoundResult closure_cut(const StepGraph& graph, const plan::ScheduleProfile& profile,
                           const ClosureCutOptions& options);

}  // namespace lowtide::remat
