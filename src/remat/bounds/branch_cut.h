// Branch and bound (Land and Doig 1960) as a bound on the time: a multi-cut as an integer program
// (multi_cut_program.h), whose relaxation is split where it is fractional (branch_tree.h).
//
// Which ops cut is a search of our own: the closure cut's, then ops that need much when they run,
// are ordered with it, and at which memory binds; next comes the one with which the relaxations of
// the lowest cases rise most. A multi-cut of more ops proves more in the end, and less at first; so
// each gets twice the splits of the one before, and when it does not prove more than that one did,
// the smaller one goes on.
//
// What this costs is far more than multi_cut.h; it is for those who want to know. For
// problems without a link.
#pragma once

#include <cstdint>
#include <functional>

#include "base/limits.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/multi_cut_program.h"

namespace lowtide::remat {

struct BranchCutOptions {
  // A unit is an arc, or an entry of a relaxation, looked at. What is proven until it is stopped
  // holds.
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
