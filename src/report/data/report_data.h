// Everything that a report shows, as one JSON object ("Report" in docs/formats.md): what `lowtide
// report --json` prints and the page draws. A pure function of plans and of what was measured and
// swept: the same input gives the same bytes.
//
// Long lists are columns, lists of equal length in place of lists of objects, since a step may have
// 100,000 stays. Ids are positions in the plan: an op's, a storage's (a "tensor"), a step's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/data/front_file.h"
#include "report/measured.h"
#include "report/verdict.h"

namespace lowtide::report {

struct ReportedPlan {
  const plan::Plan* plan = nullptr;        // borrowed
  std::string file = {};                   // as the user calls it
  const PlanningFacts* facts = nullptr;    // null: the plan was loaded from its file
  const MeasuredStep* measured = nullptr;  // null: it was not run
};

struct ReportRequest {
  std::vector<ReportedPlan> plans;    // at least one
  bool beside = false;                // the second one stands beside the first
  const SweptFront* front = nullptr;  // null: none
  std::vector<std::string> findings;  // of a verifier; empty: all plans are right
  // Of all plans' data: a front's plans are left out beyond that, so that a page of them stays
  // small enough to be sent.
  size_t most_bytes = 2'600'000;
};

nlohmann::ordered_json report_data(const ReportRequest& request);

// The first of the plans that is this point's: same budget, arena and time; -1: none.
int plan_of_point(const ReportRequest& request, const FrontPoint& point);

// One line of text. Bytes of names that are not UTF-8 become U+FFFD.
std::string print_report(const nlohmann::ordered_json& data);

}  // namespace lowtide::report
