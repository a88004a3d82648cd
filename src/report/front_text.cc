#include "report/front_text.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/verdict.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostReason = 600;  // bytes of a reason in the table

bool is(const std::optional<size_t>& marked, size_t i) {
  return marked && *marked == i;
}

OrderedJson point_json(const FrontView& front, size_t i) {
  const FrontPoint& point = front.points[i];
  const auto when_found = [&](auto value) {
    return point.found ? OrderedJson(value) : OrderedJson();
  };
  OrderedJson json;
  json["budget_bytes"] = point.budget_bytes;
  json["status"] = point.status;
  json["found"] = point.found;
  json["arena_bytes"] = when_found(point.arena_bytes);
  json["peak_bytes"] = when_found(point.peak_bytes);
  json["predicted_step_seconds"] = when_found(point.seconds);
  json["lower_bound_seconds"] = when_found(point.lower_bound_seconds);
  json["extra_percent"] = when_found(100 * point.extra);
  json["lower_bound_extra_percent"] = when_found(100 * point.bound_extra);
  json["gap_percent"] = when_found(100 * point.gap);
  json["reruns"] = when_found(point.reruns);
  json["stored_bytes"] = when_found(point.stored_bytes);
  json["loaded_bytes"] = when_found(point.loaded_bytes);
  json["exposed_seconds"] = when_found(point.exposed_seconds);
  json["split"] = when_found(point.split);
  json["knee"] = is(front.knee, i);
  json["chosen"] = is(front.chosen, i);
  json["reason"] = point.found ? OrderedJson() : OrderedJson(point.reason);
  return json;
}

// A line stands alone, so it says of what its point is.
OrderedJson line_json(const FrontView& front, size_t i) {
  OrderedJson json = point_json(front, i);
  json["model"] = front.unlimited.model;
  json["dims"] = front.unlimited.bindings;
  return json;
}

std::string mib(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::string row(const FrontView& front, size_t i) {
  const FrontPoint& point = front.points[i];
  std::string text =
      fmt::format("{} {:>10}", is(front.chosen, i) ? '*' : ' ', mib(point.budget_bytes));
  if (!point.found) {
    text += fmt::format(" {:>10} {:>8} {:>8} {:>8}  {}", "-", "-", "-", "-", point.status);
  } else {
    const int64_t moved = point.stored_bytes + point.loaded_bytes;
    text += fmt::format(" {:>10} {:>8.2f} {:>8.2f} {:>8.2f}  {:<10} {:>6} {:>10}",
                        mib(point.arena_bytes), 100 * point.extra, 100 * point.bound_extra,
                        100 * point.gap, point.status, point.reruns, moved == 0 ? "-" : mib(moved));
  }
  if (point.found && point.split != "1") text += fmt::format("  in {} parts", point.split);
  return text + (is(front.knee, i) ? "  knee\n" : "\n");
}

// Why budgets were missed, below the table.
std::string reasons(const FrontView& front) {
  std::string text;
  for (const FrontPoint& point : front.points)
    if (!point.found)
      text += fmt::format("\n{} MiB: {}\n", mib(point.budget_bytes),
                          printable(point.reason, kMostReason));
  return text;
}

}  // namespace

std::string front_text(const FrontView& front) {
  const plan::Plan& plan = front.unlimited;
  std::string text = printable(plan.model) + ":";
  auto out = std::back_inserter(text);
  for (const auto& [symbol, size] : plan.bindings)
    fmt::format_to(out, " {}={}", printable(symbol), size);
  fmt::format_to(out, "  {} budgets in {:.1f} s\n", front.points.size(), front.planning_seconds);
  fmt::format_to(out, "given order {}, best order's arena {}, floor {} (proven), step {:.1f} ms\n",
                 format_bytes(plan.claims.peak_before_bytes), format_bytes(plan.arena_bytes),
                 format_bytes(front.floor_bytes), plan.claims.once_seconds * 1e3);
  fmt::format_to(out, "costs: {}\n\n", printable(costs_of(plan), kMostCosts));
  fmt::format_to(out, "  {:>10} {:>10} {:>8} {:>8} {:>8}  {:<10} {:>6} {:>10}\n", "budget", "arena",
                 "extra", "bound", "gap", "", "", "moved");
  fmt::format_to(out, "  {:>10} {:>10} {:>8} {:>8} {:>8}  {:<10} {:>6} {:>10}\n", "MiB", "MiB", "%",
                 "%", "%", "status", "reruns", "MiB");
  for (size_t i = 0; i < front.points.size(); ++i) text += row(front, i);
  return text + reasons(front);
}

std::string front_json(const FrontView& front) {
  const plan::Plan& plan = front.unlimited;
  const auto index = [](const std::optional<size_t>& i) {
    return i ? OrderedJson(*i) : OrderedJson();
  };
  OrderedJson json;
  json["model"] = plan.model;
  json["dims"] = plan.bindings;
  json["peak_before_bytes"] = plan.claims.peak_before_bytes;
  json["unlimited_bytes"] = plan.arena_bytes;
  json["floor_bytes"] = front.floor_bytes;
  json["once_seconds"] = plan.claims.once_seconds;
  json["costs"] = costs_of(plan);
  json["knee"] = index(front.knee);
  json["chosen"] = index(front.chosen);
  json["points"] = OrderedJson::array();
  for (size_t i = 0; i < front.points.size(); ++i) json["points"].push_back(point_json(front, i));
  json["planning_seconds"] = front.planning_seconds;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string front_lines(const FrontView& front) {
  std::string text;
  for (size_t i = 0; i < front.points.size(); ++i)
    text += line_json(front, i).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  return text;
}

}  // namespace lowtide::report
