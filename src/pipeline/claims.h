// What a plan says about itself: peaks, times, and the bounds with their certificates. Only what
// the verifier can recheck is claimed; what a search has proven beyond that stays with its outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analysis/schedule_view.h"
#include "base/limits.h"
#include "ir/graph.h"
#include "pipeline/solution.h"
#include "plan/plan.h"
#include "plan/progress.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/time_bound.h"

namespace lowtide::pipeline {

struct ClaimInputs {
  const ir::Graph& graph;
  const analysis::ScheduleView& view;
  const plan::ScheduleOutcome& order;  // each op once
  const Solution& solution;
  int64_t peak_before_bytes = 0;
  std::optional<int64_t> budget_bytes;
  bool transfers = true;  // what the bounds allow, if there is a link
  bool soon = false;      // someone waits, or the time is over: no bound that takes long
  // Where the graph has one of several orders of its sums: what holds for all of them.
  std::optional<int64_t> floor_bytes = {};
  plan::SchedOpId floor_op = {};  // that may well set it
  // proven_floor of the view's problem, as far as `floor_bytes` goes; none: it is asked here.
  const remat::Floor* floor = nullptr;
  // Of the search for a higher bound on the time (remat/bounds/branch_cut.h), where nothing may
  // move; no units: not at all. Its time is that of all bounds that are not asked for soon.
  Limits proof{.max_units = 0};
  // What a search within the budget has proven, with what these inputs allow, to the question of
  // bound_to_claim(order); none: it is asked for here.
  const remat::TimeBound* bound = nullptr;
  // How `proof` goes on, with shares of its own work; may be empty.
  plan::ProgressFunction progress = {};
  bool several_cuts = true;  // bounds on the time from several moments, not one
};

struct Claimed {
  plan::Claims claims;
  plan::SchedOpId floor_op;  // whose need shows the claimed floor; none: residents', or no budget
  bool cut_short = false;    // the clock or the flag ended the proof
};
Claimed make_claims(const ClaimInputs& inputs);

// How the bound is asked for that a plan claims. `order`, which is borrowed: each op once.
remat::TimeBoundOptions bound_to_claim(std::span<const plan::SchedOpId> order);

// What the least arena of any schedule is proven to have, as far as it is asked for.
remat::Floor proven_floor(const plan::ScheduleProblem& problem, bool transfers,
                          const remat::FloorQuestion& question = {});

}  // namespace lowtide::pipeline
