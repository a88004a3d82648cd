// Fronts as a report reads them: whatever is accepted has falling budgets and a report, which says
// of each point what the line says; whatever is not, is refused in one line.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "report/data/report_data.h"
#include "report_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace report = lowtide::report;
  static const lowtide::plan::Plan kPlan = report_plan();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto front = report::read_front(text, "fuzz", kPlan);
  if (!front) {
    LT_CHECK(front.error().message.find('\n') == std::string::npos, "one line");
    return 0;
  }
  report::ReportRequest request;
  request.plans.push_back({.plan = &kPlan, .file = "p.lt"});
  request.front = &*front;
  const auto told = report::report_data(request);
  const auto& points = told["front"]["points"];
  LT_CHECK(points.size() == front->points.size(), "all points are told");
  for (size_t i = 0; i < points.size(); ++i) {
    LT_CHECK(points[i]["budget_bytes"] == front->points[i].budget_bytes, "as they are");
    LT_CHECK(i == 0 || front->points[i].budget_bytes < front->points[i - 1].budget_bytes,
             "budgets fall");
    LT_CHECK(points[i]["seconds"].is_null() == !front->points[i].found, "null where none is found");
  }
  const std::string printed = report::print_report(told);
  LT_CHECK(nlohmann::ordered_json::parse(printed, nullptr, false).is_object(), "it is JSON");
  return 0;
}
