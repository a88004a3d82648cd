#include "report/data/report_data.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/data/beside.h"
#include "report/data/plan_columns.h"
#include "report/data/plan_parts.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson front_data(const ReportRequest& request) {
  const SweptFront& front = *request.front;
  OrderedJson json;
  json["model"] = front.model;
  json["dims"] = front.dims;
  json["points"] = OrderedJson::array();
  for (size_t i = 0; i < front.points.size(); ++i) {
    const FrontPoint& point = front.points[i];
    const auto when_found = [&](auto value) {
      return point.found ? OrderedJson(value) : OrderedJson();
    };
    OrderedJson one;
    one["budget_bytes"] = point.budget_bytes;
    one["status"] = point.status;
    one["found"] = point.found;
    one["arena_bytes"] = when_found(point.arena_bytes);
    one["peak_bytes"] = when_found(point.peak_bytes);
    one["seconds"] = when_found(point.seconds);
    one["bound_seconds"] = when_found(point.lower_bound_seconds);
    one["extra_percent"] = when_found(100 * point.extra);
    one["bound_percent"] = when_found(100 * point.bound_extra);
    one["gap_percent"] = when_found(100 * point.gap);
    one["reruns"] = when_found(point.reruns);
    one["stored_bytes"] = when_found(point.stored_bytes);
    one["loaded_bytes"] = when_found(point.loaded_bytes);
    one["exposed_seconds"] = when_found(point.exposed_seconds);
    one["split"] = when_found(point.split);
    one["knee"] = front.knee == i;
    one["chosen"] = front.chosen == i;
    one["reason"] = point.found ? OrderedJson() : OrderedJson(point.reason);
    one["plan"] = plan_of_point(request, point);
    json["points"].push_back(std::move(one));
  }
  return json;
}

OrderedJson plan_data(const ReportedPlan& reported, const SweptFront* front) {
  const PlanView view(*reported.plan);
  OrderedJson json;
  json["file"] = reported.file;
  json["model"] = view.plan.model;
  json["provenance"] = view.plan.provenance;
  json["bindings"] = view.plan.bindings;
  json["summary"] = summary_data(view);
  json["verdict"] = verdict_lines(view.plan, reported.facts);
  add_columns(json, view);
  json["curve"] = curve_data(view);
  json["peak"] = peak_data(view);
  json["actions"] = actions_data(view, reported.facts, front);
  json["module_tree"] = module_tree_data(view);
  json["measured"] =
      reported.measured == nullptr ? OrderedJson() : measured_data(view, *reported.measured);
  return json;
}

}  // namespace

int plan_of_point(const ReportRequest& request, const FrontPoint& point) {
  if (!point.found) return -1;
  for (size_t i = 0; i < request.plans.size(); ++i) {
    const plan::Plan& plan = *request.plans[i].plan;
    if (plan.claims.budget_bytes == point.budget_bytes && plan.arena_bytes == point.arena_bytes &&
        plan.claims.predicted_seconds == point.seconds)
      return static_cast<int>(i);
  }
  return -1;
}

OrderedJson report_data(const ReportRequest& request) {
  OrderedJson json;
  json["format"] = "lowtide-report";
  json["version"] = 1;
  json["verified"] = request.findings.empty();
  json["findings"] = request.findings;
  json["plans"] = OrderedJson::array();
  for (const ReportedPlan& plan : request.plans)
    json["plans"].push_back(plan_data(plan, request.front));
  json["beside"] = OrderedJson();
  if (request.beside) json["beside"] = beside_data(*request.plans[0].plan, *request.plans[1].plan);
  json["front"] = request.front == nullptr ? OrderedJson() : front_data(request);
  return json;
}

std::string print_report(const OrderedJson& data) {
  return data.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace lowtide::report
