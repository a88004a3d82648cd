// Measured profiles: whatever is accepted round-trips, and a report can be made of it; whatever is
// not, is refused in one line.
#include "report/measured.h"

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
  const auto measured = report::read_measured(text, "fuzz", kPlan);
  if (!measured) {
    LT_CHECK(measured.error().message.find('\n') == std::string::npos, "one line");
    return 0;
  }
  const std::string printed = report::print_measured(kPlan, *measured);
  const auto again = report::read_measured(printed, "again", kPlan);
  LT_CHECK(again.has_value() && report::print_measured(kPlan, *again) == printed,
           "print and read give the profile back");
  report::ReportRequest request;
  request.plans.push_back({.plan = &kPlan, .file = "p.lt", .measured = &*measured});
  const auto told = report::report_data(request)["plans"][0]["measured"];
  LT_CHECK(told["op_seconds"].size() == kPlan.ops.size(), "each op has its time, or null");
  return 0;
}
