#include "report/budget.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace lowtide::report {
namespace {

constexpr double kLoose = 0.05;  // of each op once: what more levers may be worth a word

double percent_of(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

}  // namespace

std::string_view in_which_parts(const PlanningFacts& facts) {
  const bool is_whole = facts.split.empty() && facts.cuts.empty() && facts.query_blocks <= 1;
  return is_whole ? "in one part" : "in these parts";
}

TimeVerdict time_verdict(const plan::Plan& plan) {
  const plan::Claims& claims = plan.claims;
  TimeVerdict verdict;
  verdict.once_seconds = claims.once_seconds;
  verdict.extra_seconds = claims.predicted_seconds - claims.once_seconds;
  verdict.extra_percent = percent_of(verdict.extra_seconds, claims.once_seconds);
  verdict.bound_percent =
      percent_of(claims.lower_bound_seconds - claims.once_seconds, claims.once_seconds);
  verdict.gap_points = std::max(0.0, verdict.extra_percent - verdict.bound_percent);
  return verdict;
}

std::string_view schedule_status(const plan::Plan& plan, plan::SolveStatus search) {
  if (plan::is_fastest(plan)) return plan::name(plan::SolveStatus::kOptimal);
  return plan::name(search == plan::SolveStatus::kLimit ? search : plan::SolveStatus::kFeasible);
}

namespace {

// What no parts get below, where it is known.
std::string any_parts_text(const plan::Claims& claims) {
  if (!claims.parts_floor) return {};
  const plan::PartsFloor& floor = *claims.parts_floor;
  return fmt::format(
      "any parts  at least {}: proven; {} that stay and {} of op '{}' in {} part{}\n",
      format_bytes(floor.bytes), format_bytes(floor.bytes - floor.part_bytes),
      format_bytes(floor.part_bytes), floor.op, floor.parts, floor.parts == 1 ? "" : "s");
}

// Of a plan that takes long: what else it could have used.
std::string unused_text(const plan::Plan& plan, const PlanningFacts& facts) {
  const double once = facts.whole_seconds > 0 ? facts.whole_seconds : plan.claims.once_seconds;
  const bool is_loose = plan.claims.predicted_seconds > once * (1 + kLoose);
  if (!is_loose || facts.unused_levers.empty()) return {};
  return fmt::format("not used: {} (--allow {})\n", fmt::join(facts.unused_levers, ", "),
                     facts.all_levers);
}

}  // namespace

std::string budget_text(const plan::Plan& plan, const PlanningFacts& facts) {
  const plan::Claims& claims = plan.claims;
  const TimeVerdict time = time_verdict(plan);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "budget {}  arena {} ({} bytes), {} below it\n",
                 format_bytes(*claims.budget_bytes), format_bytes(plan.arena_bytes),
                 plan.arena_bytes, format_bytes(*claims.budget_bytes - plan.arena_bytes));
  fmt::format_to(out, "time   {:.1f} ms predicted, {:+.2f} % ({:+.1f} ms) over each op once\n",
                 claims.predicted_seconds * 1e3, time.extra_percent, time.extra_seconds * 1e3);
  fmt::format_to(
      out,
      "proven {:+.2f} % at least within this budget {} ({:.1f} ms){}, gap {:.2f} points  "
      "(schedule {})\n",
      time.bound_percent, in_which_parts(facts), claims.lower_bound_seconds * 1e3,
      facts.bound_of_one_order ? ", sums added in this order" : "", time.gap_points,
      schedule_status(plan, facts.schedule_status));
  if (claims.floor_bytes)
    fmt::format_to(out, "floor  {}: proven, no schedule {} needs less{}\n",
                   format_bytes(*claims.floor_bytes), in_which_parts(facts),
                   facts.floor_reason.empty() ? "" : "; set by " + facts.floor_reason);
  text += any_parts_text(claims);
  if (facts.more_memory) {
    const auto& [bytes, seconds, least] = *facts.more_memory;
    fmt::format_to(out,
                   "more   {:.0f} % more budget ({}): {:.1f} ms saved by a short search, no "
                   "schedule {} saves more than {:.1f} ms\n",
                   percent_of(static_cast<double>(bytes - *claims.budget_bytes),
                              static_cast<double>(*claims.budget_bytes)),
                   format_bytes(bytes), (claims.predicted_seconds - seconds) * 1e3,
                   in_which_parts(facts), (claims.predicted_seconds - least) * 1e3);
  }
  return text + unused_text(plan, facts);
}

void add_budget(nlohmann::ordered_json& json, const plan::Plan& plan, const PlanningFacts& facts) {
  const plan::Claims& claims = plan.claims;
  const TimeVerdict time = time_verdict(plan);
  json["once_seconds"] = claims.once_seconds;
  json["exposed_seconds"] = claims.exposed_seconds;
  json["lower_bound_seconds"] = claims.lower_bound_seconds;
  json["extra_percent"] = time.extra_percent;
  json["lower_bound_extra_percent"] = time.bound_percent;
  json["gap_points"] = time.gap_points;
  json["schedule_status"] = schedule_status(plan, facts.schedule_status);
  const auto maybe = [&json](const char* key, const std::optional<int64_t>& bytes) {
    json[key] = bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json();
  };
  maybe("budget_bytes", claims.budget_bytes);
  maybe("floor_bytes", claims.floor_bytes);
  json["floor_set_by"] = facts.floor_reason;
  json["bounds_are_of"] = in_which_parts(facts);
  json["any_parts_floor"] = nullptr;
  if (claims.parts_floor)
    json["any_parts_floor"] = {{"bytes", claims.parts_floor->bytes},
                               {"op", claims.parts_floor->op},
                               {"parts", claims.parts_floor->parts},
                               {"part_bytes", claims.parts_floor->part_bytes}};
  json["bound_of_one_order_of_sums"] = facts.bound_of_one_order;
  json["more_memory"] = nullptr;
  if (!facts.more_memory) return;
  const auto& [bytes, seconds, least] = *facts.more_memory;
  json["more_memory"] = {{"budget_bytes", bytes},
                         {"predicted_seconds", seconds},
                         {"saved_seconds", claims.predicted_seconds - seconds},
                         {"most_saved_seconds", claims.predicted_seconds - least}};
}

}  // namespace lowtide::report
