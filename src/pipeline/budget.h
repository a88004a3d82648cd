// A schedule and addresses within a byte budget: what recompute and swap are for.
//
// The searches (remat/joint.h) know bytes, not addresses, so a schedule within the budget may need
// an arena a little above it. Then the search is asked again for as much less as was missed, from
// where it stood. The bound is that of the budget itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "analysis/schedule_view.h"
#include "base/result.h"
#include "pipeline/optimize.h"
#include "pipeline/solution.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/time_bound.h"

namespace lowtide::pipeline {

struct BudgetSolution {
  Solution solution;
  plan::SolveStatus status = plan::SolveStatus::kLimit;
  plan::SolveWork work;
  bool cut_short = false;  // wall time or the cancel flag ended the search: the best until then
  // What the search has proven of the budget, asked for as a plan claims it (claims.h); none: it
  // did not ask.
  std::optional<remat::TimeBound> bound{};
  double seconds = 0;  // of wall time: searches and packing
};

// What every schedule needs, whatever the order of its sums, and why.
struct ProvenFloor {
  int64_t bytes = 0;
  std::string reason;    // what sets it: "op 'head' with 'logits' (196.3 MiB), ..."
  std::string op = {};   // by name; empty: none
  remat::Floor found{};  // of the view with its sums in any order
};
ProvenFloor floor_of_view(const analysis::ScheduleView& view, bool transfers);

// `unlimited`: the best that needs neither reruns nor transfers; its arena is above the budget.
// `order`: each op once, by which a plan's claims are judged.
// Error: kInfeasible (the budget is below `floor`) or kLimit (nothing was found); both name the
// floor, what sets it, and the smallest arena found.
Result<BudgetSolution> fit_budget(const analysis::ScheduleView& view,
                                  const OptimizeOptions& options,
                                  std::span<const plan::SchedOpId> order, const Solution& unlimited,
                                  const ProvenFloor& floor);

}  // namespace lowtide::pipeline
