// The shorter parts of a report's plan: what it claims, its curves, what is there at the peak, what
// was done and what that cost, what was measured, and the modules as a tree.
//
// Internal to src/report/data.
//
// Tests: report_data_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/data/front_file.h"
#include "report/data/plan_columns.h"
#include "report/measured.h"
#include "report/verdict.h"

namespace lowtide::report {

nlohmann::ordered_json summary_data(const PlanView& view, const PlanningFacts* facts);
// Without how long the planning took, which differs from run to run.
nlohmann::ordered_json verdict_lines(const plan::Plan& plan, const PlanningFacts* facts);
nlohmann::ordered_json curve_data(const PlanView& view);
nlohmann::ordered_json peak_data(const PlanView& view);
// A larger budget is what the planner found (`facts`), else the next point of the front.
nlohmann::ordered_json actions_data(const PlanView& view, const PlanningFacts* facts,
                                    const SweptFront* front);
nlohmann::ordered_json measured_data(const PlanView& view, const MeasuredStep& measured);
nlohmann::ordered_json module_tree_data(const PlanView& view);

}  // namespace lowtide::report
