// Branch and bound (Land and Doig 1960) as a bound on the time: a multi-cut as an integer program
// (multi_cut_program.h), whose linear relaxation is split into cases where it is fractional. Two
// searches, one around the other.
//
//   cases     For given ops: always the lowest case is split, until its bound is the goal or the
//             work is spent (best first; branch_tree.h).
//   ops       Which ops cut is a greedy search of our own. It begins with the closure cut's op
//             alone. Candidates are ops that come before or after that one in every schedule, that
//             need much memory when they run, beside which not all fits that is needed later, and
//             that lie apart from each other. In each round they are tried one by one: the
//             relaxations of the few lowest cases are solved with the op and without, and the op
//             that raises them most, on average, is added.
//
// A multi-cut of more ops proves more in the end, and less at first. So each round has twice the
// splits of the one before, for a new tree with the op that was added; where it proves no more than
// the tree before, the latter gets them and goes on. After two such failures no op is added.
//
// Cost: a split takes two linear programs, each a run of the dual simplex from its parent's basis,
// after short trial runs that choose the variable; a trial of an op takes two for each of the
// lowest cases. Seconds to minutes in all, as the limits allow: far more than multi_cut.h, for
// those who want to know (`--prove`). For problems without a link.
#pragma once

#include <cstdint>
#include <functional>

#include "base/limits.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/multi_cut_program.h"

namespace lowtide::remat {

struct BranchCutOptions {
  // An arc, or an entry of a relaxation, that is looked at counts as one unit. What is proven until
  // it is stopped holds.
  Limits limits{.max_units = 2'000'000'000};
  double goal_seconds = 1e300;  // of the step: ends when that much is proven
  bool write_proof = true;      // off: the bound alone, of the whole tree
  // Of the written proof; where the tree has more, the top of it, and the bound that this proves.
  size_t most_splits = ~size_t{0};
  // Called now and then from the calling thread, with what is proven by then and the share of the
  // work that is spent; neither ever falls. May be empty.
  std::function<void(double lower_bound_seconds, double share)> progress = {};
};

struct BranchCutResult {
  double lower_bound_seconds = 0;  // of every schedule within the budget
  double bound_seconds = 0;        // beyond each op once
  int64_t bound_ticks = 0;         // of the whole step
  // Its cases prove it, parents first, children in pairs; without any the closure cut does.
  plan::ProblemCertificate certificate;
  int64_t work = 0;
  bool cut_short = false;  // by the clock or the flag
};

// At least what `single`, the closure cut of the same problem (feasible), proves.
BranchCutResult branch_cut(const plan::ScheduleProblem& problem, const CutBoundResult& single,
                           const BranchCutOptions& options = {});

}  // namespace lowtide::remat
