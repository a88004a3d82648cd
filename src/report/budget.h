// The part of the verdict that speaks of a byte budget: what was asked and kept, what it costs in
// time, how much of that cost is proven to be unavoidable, and the floor below which no schedule
// gets.
//
// Two bounds stand in a plan, and they answer different questions. `lower_bound_bytes` is about
// orders that run each op once: a plan with reruns or transfers lies below it on purpose, so it is
// no bound of that plan and no gap to it is printed. `lower_bound_seconds` and `floor_bytes` hold
// for every schedule within the budget, reruns and transfers included.
//
// Tests: report_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/outcome.h"
#include "plan/plan.h"
#include "report/verdict.h"

namespace lowtide::report {

// Times of a plan beside those of each op once.
struct TimeVerdict {
  double once_seconds = 0;
  double extra_seconds = 0, extra_percent = 0;  // of the plan above that
  double bound_percent = 0;                     // proven for every schedule within the budget
  double gap_points = 0;                        // extra_percent - bound_percent
};
TimeVerdict time_verdict(const plan::Plan& plan);

// "optimal" where time and proven bound agree, else how the search ended.
std::string_view schedule_status(const plan::Plan& plan, plan::SolveStatus search);

// Of which step the bounds speak: "in one part" or "in these parts".
std::string_view in_which_parts(const PlanningFacts& facts);

// Lines of text; the members of the JSON (docs/formats.md, "plan --json").
std::string budget_text(const plan::Plan& plan, const PlanningFacts& facts);
void add_budget(nlohmann::ordered_json& json, const plan::Plan& plan, const PlanningFacts& facts);

}  // namespace lowtide::report
