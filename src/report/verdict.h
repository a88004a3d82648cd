// The verdict on a plan: what people read first, and the same as JSON with stable keys
// (docs/formats.md, "plan --json").
//
// Tests: report_test.cc.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/outcome.h"
#include "plan/plan.h"

namespace lowtide::report {

// A larger budget, the predicted time of what a short search found within it, and what is proven
// for every schedule within it.
struct MoreMemory {
  int64_t budget_bytes = 0;
  double seconds = 0, lower_bound_seconds = 0;
};

// What a rewrite has changed; the peak in the given order, each op's time once.
struct Rewritten {
  std::string name;
  int64_t ops = 0, peak_bytes = 0;
  double seconds = 0;
};

// What the plan file does not hold: how the planning went.
struct PlanningFacts {
  plan::SolveStatus order_status = plan::SolveStatus::kOptimal;
  int64_t search_bound_bytes = 0;  // proven by the search; no plan claims it (src/plan/plan.h)
  plan::SolveStatus pack_status = plan::SolveStatus::kOptimal;
  plan::SolveStatus schedule_status = plan::SolveStatus::kOptimal;  // of recompute and swap
  std::optional<MoreMemory> more_memory;
  std::string floor_reason;             // the op and the tensors that set the claimed floor
  std::vector<Rewritten> rewrites;      // those that changed something
  int64_t parts = 1, ops_in_parts = 0;  // ops of one class run in so many parts
  std::string split;                    // as --split takes it; empty: the step is whole
  int64_t query_blocks = 1;             // of each attention
  std::vector<std::string> cuts;        // as --cut takes them
  double whole_seconds = 0;             // of the step in one part, each op once
  bool bound_of_one_order = false;      // the bound on the time holds for this order of sums only
  bool cut_short = false;  // a time limit or Ctrl-C ended a search before its work limit did
  int64_t order_units = 0, pack_units = 0, schedule_units = 0;  // work done
  std::vector<std::pair<std::string, double>> stages;           // name, seconds
  std::vector<std::string> notes;          // what was passed over in the model's file, a line each
  std::vector<std::string> unused_levers;  // of the device's, those that the plan could not use
  std::string all_levers;                  // as --allow takes them
  double planning_seconds = 0;
  double reading_seconds = 0;
};

// "roofline of NVIDIA GeForce RTX 3090", "measured 812 of 825 ops, ...; the rest by the roofline of
// ...": where the plan's seconds come from. Empty: it does not say.
std::string costs_of(const plan::Plan& plan);
inline constexpr size_t kMostCosts = 1000;  // bytes of it in a line: it is longer than a name

// What a plan file says of its planning: that it is in parts, in which, and what that costs.
PlanningFacts facts_in_file(const plan::Plan& plan);

std::string verdict_text(const plan::Plan& plan, const PlanningFacts& facts);
std::string verdict_json(const plan::Plan& plan, const PlanningFacts& facts);

}  // namespace lowtide::report
