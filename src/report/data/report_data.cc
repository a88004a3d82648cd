#include "report/data/report_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/data/beside.h"
#include "report/data/plan_columns.h"
#include "report/data/plan_parts.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

int place_among(const std::vector<size_t>& kept, int plan) {
  const auto found = std::find(kept.begin(), kept.end(), static_cast<size_t>(plan));
  return plan < 0 || found == kept.end() ? -1 : static_cast<int>(found - kept.begin());
}

// `kept`: which of the request's plans are in the report, ascending.
OrderedJson front_data(const ReportRequest& request, const std::vector<size_t>& kept) {
  const SweptFront& front = *request.front;
  OrderedJson json;
  json["model"] = front.model;
  json["dims"] = front.dims;
  json["plans_left_out"] = request.plans.size() - kept.size();
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
    one["plan"] = place_among(kept, plan_of_point(request, point));
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
  json["summary"] = summary_data(view, reported.facts);
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

// The plans of the front in the order in which they are wanted: that of the chosen point, of the
// knee, then always that of the point farthest from those whose plans are there.
std::vector<size_t> by_wish(const ReportRequest& request, size_t first) {
  const SweptFront& front = *request.front;
  std::vector<size_t> wished, points;
  std::map<size_t, size_t> open;  // by point: its plan
  for (size_t i = 0; i < front.points.size(); ++i) {
    const int plan = plan_of_point(request, front.points[i]);
    if (plan >= 0 && static_cast<size_t>(plan) < first) points.push_back(i);
    if (plan >= 0 && static_cast<size_t>(plan) >= first) open[i] = static_cast<size_t>(plan);
  }
  const auto take = [&](size_t point) {
    if (!open.contains(point)) return;
    wished.push_back(open[point]);
    points.push_back(point);
    open.erase(point);
  };
  if (front.chosen) take(*front.chosen);
  if (front.knee) take(*front.knee);
  while (!open.empty()) {
    const auto distance = [&](size_t point) {
      size_t least = SIZE_MAX;
      for (size_t other : points)
        least = std::min(least, point > other ? point - other : other - point);
      return least;
    };
    size_t farthest = open.begin()->first;
    for (const auto& [point, plan] : open)
      if (distance(point) > distance(farthest)) farthest = point;
    take(farthest);
  }
  return wished;
}

// The plan, the one beside it, and as many of the front's as there is room for; by their place in
// the request.
std::map<size_t, OrderedJson> plans_within(const ReportRequest& request) {
  std::map<size_t, OrderedJson> plans;
  size_t bytes = 0;
  const auto data_of = [&](size_t i) { return plan_data(request.plans[i], request.front); };
  const size_t first =
      request.front == nullptr ? request.plans.size() : size_t{request.beside ? 2U : 1U};
  for (size_t i = 0; i < first; ++i) bytes += print_report(plans[i] = data_of(i)).size();
  if (request.front == nullptr) return plans;
  for (size_t i : by_wish(request, first)) {
    OrderedJson plan = data_of(i);
    bytes += print_report(plan).size();
    if (bytes > request.most_bytes) break;
    plans[i] = std::move(plan);
  }
  return plans;
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
  std::vector<size_t> kept;
  for (auto& [index, plan] : plans_within(request)) {
    kept.push_back(index);
    json["plans"].push_back(std::move(plan));
  }
  json["beside"] = OrderedJson();
  if (request.beside) json["beside"] = beside_data(*request.plans[0].plan, *request.plans[1].plan);
  json["front"] = request.front == nullptr ? OrderedJson() : front_data(request, kept);
  return json;
}

std::string print_report(const OrderedJson& data) {
  return data.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace lowtide::report
