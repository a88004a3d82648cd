#include "tools/report_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/front.h"
#include "api/state.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/result.h"
#include "report/curve_text.h"
#include "report/html/page.h"
#include "tools/terminal.h"
#include "verify/verify.h"

namespace lowtide::tools {
namespace {

constexpr size_t kMostFindingShown = 1000;  // bytes
constexpr int kCurveColumns = 60, kCurveMargin = 14;

report::ReportedPlan reported(const Plan& plan, const std::string& file) {
  return {.plan = &plan.state().plan, .file = file, .facts = &plan.state().facts};
}

report::SweptFront swept(const Front& front) {
  const plan::Plan& plan = front.unlimited().state().plan;
  return {.model = plan.model,
          .dims = plan.bindings,
          .points = front.points(),
          .knee = front.knee(),
          .chosen = front.chosen()};
}

}  // namespace

Error refusal(const std::string& path, const std::vector<std::string>& findings) {
  std::string text = fmt::format("{}: {} finding{}", printable(path), findings.size(),
                                 findings.size() == 1 ? "" : "s");
  for (const std::string& finding : findings)
    text += "\n  " + printable(finding, kMostFindingShown);
  return {ErrorCode::kVerification, std::move(text)};
}

std::string unverified_lines(const std::vector<std::string>& findings) {
  std::string text;
  for (const std::string& finding : findings) text += "not verified: " + finding + "\n";
  return text;
}

Result<Plan> read_plan_to_show(const std::string& path, bool unverified,
                               std::vector<std::string>& findings) {
  LT_ASSIGN(Plan plan, Plan::load(path));
  std::vector<std::string> its;
  for (const verify::Finding& finding : verify::verify(plan.state().plan).findings)
    its.push_back(finding.message);
  if (!its.empty() && !unverified) return tl::unexpected(refusal(path, its));
  for (const std::string& finding : its)
    findings.push_back(fmt::format("{}: {}", path, printable(finding, kMostFindingShown)));
  return plan;
}

Status check_page(const std::string& report_path) {
  if (report_path.empty() || !report::bundled_page().empty()) return {};
  LT_RETURN_IF_ERROR(report::html_report({}, report::bundled_page()));
  return {};
}

Result<std::string> plan_report(const Plan& plan, const std::string& file) {
  report::ReportRequest request;
  request.plans.push_back(reported(plan, file));
  return report::html_report(report::report_data(request), report::bundled_page());
}

Result<std::string> front_report(const Front& front, const std::string& prefix, bool all_plans) {
  const std::string name = std::filesystem::path(prefix).filename().string();
  const auto file = [&](const std::string& end) { return name.empty() ? name : name + end; };
  const report::SweptFront points = swept(front);
  report::ReportRequest request;
  request.front = &points;
  const std::optional<size_t> chosen = front.chosen();
  request.plans.push_back(reported(chosen ? *front.plan(*chosen) : front.unlimited(), file(".lt")));
  for (size_t i = 0; all_plans && i < front.points().size(); ++i)
    if (front.plan(i) != nullptr && chosen != i)
      request.plans.push_back(
          reported(*front.plan(i), file(fmt::format("-{}.lt", front.points()[i].budget_bytes))));
  return report::html_report(report::report_data(request), report::bundled_page());
}

std::string curve_for_terminal(const Plan& plan) {
  const Terminal terminal = standard_output();
  if (!terminal.there) return {};
  const int columns = std::min(kCurveColumns, terminal.columns - kCurveMargin);
  const std::string curve = report::curve_text(
      plan.state().plan,
      {.columns = columns, .blocks = terminal.utf8, .colours = terminal.colours && terminal.utf8});
  return curve.empty() ? curve : "\nmemory over the step\n" + curve;
}

}  // namespace lowtide::tools
