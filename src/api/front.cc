#include "api/front.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "api/budgets.h"
#include "api/planning.h"
#include "api/state.h"
#include "pipeline/front.h"

namespace lowtide {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct KneeTuning {
  double least_depth = 0.05;  // of the front's width and height: less is no bend
};
constexpr KneeTuning kKnee;

double over(double seconds, double base) {
  return base > 0 ? std::max(0.0, seconds / base - 1) : 0;
}

// Reruns and moves of a step, as its plan writes them.
void count_steps(const plan::Plan& plan, FrontPoint& point) {
  using Kind = plan::Step::Kind;
  IdVector<plan::PlanOpId, char> ran(plan.ops.size(), 0);
  for (const plan::Step& step : plan.steps) {
    if (step.kind == Kind::kCompute) point.reruns += std::exchange(ran[step.op], 1);
    if (step.kind == Kind::kStore) point.stored_bytes += plan.storages[step.storage].bytes;
    if (step.kind == Kind::kLoad) point.loaded_bytes += plan.storages[step.storage].bytes;
  }
}

// What was proven of the time for a budget holds for smaller ones, of the step in the same parts.
using Bounds = std::map<std::string, double>;

FrontPoint describe(const pipeline::FrontPoint& tried, Bounds& bounds) {
  FrontPoint point;
  point.budget_bytes = tried.budget_bytes;
  point.found = tried.made.has_value();
  if (!point.found) {
    point.status =
        plan::name(tried.infeasible ? plan::SolveStatus::kInfeasible : plan::SolveStatus::kLimit);
    point.reason = tried.missed;
    return point;
  }
  const plan::Plan& plan = tried.made->plan;
  const plan::Claims& claims = plan.claims;
  point.split = fission::print(tried.made->split);
  std::string parts = fmt::format("{} {}", point.split, tried.made->query_blocks);
  for (const fission::CutRule& rule : tried.made->cuts) parts += " " + fission::print(rule);
  double& bound = bounds[parts];
  bound = std::max(bound, claims.lower_bound_seconds);
  const double once =
      tried.made->whole_seconds > 0 ? tried.made->whole_seconds : claims.once_seconds;
  point.status = plan::name(tried.made->schedule_status);
  point.arena_bytes = plan.arena_bytes;
  point.peak_bytes = claims.peak_bytes;
  point.seconds = claims.predicted_seconds;
  point.lower_bound_seconds = std::min(bound, point.seconds);
  point.extra = over(point.seconds, once);
  point.bound_extra = over(point.lower_bound_seconds, once);
  point.gap = over(point.seconds, point.lower_bound_seconds);
  point.exposed_seconds = claims.exposed_seconds;
  count_steps(plan, point);
  return point;
}

// The point of the budget that was asked for, or a good one.
std::optional<size_t> choice_of(const Front::State& front, std::optional<int64_t> asked) {
  std::optional<size_t> least;
  for (size_t i = 0; i < front.points.size(); ++i) {
    if (asked && front.points[i].budget_bytes == *asked)
      return front.points[i].found ? std::optional(i) : std::nullopt;
    if (front.points[i].found) least = i;
  }
  return front.knee ? front.knee : least;
}

}  // namespace

std::optional<size_t> knee_of(const std::vector<FrontPoint>& points) {
  const auto found = [](const FrontPoint& point) { return point.found; };
  const auto most = std::find_if(points.begin(), points.end(), found);
  const auto least = std::find_if(points.rbegin(), points.rend(), found);
  if (most == points.end()) return std::nullopt;
  const auto width = static_cast<double>(most->arena_bytes - least->arena_bytes);
  const double height = least->seconds - most->seconds;
  if (width <= 0 || height <= 0) return std::nullopt;
  std::optional<size_t> best;
  double deepest = kKnee.least_depth;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].found) continue;
    const double along = static_cast<double>(most->arena_bytes - points[i].arena_bytes) / width;
    const double depth = along - (points[i].seconds - most->seconds) / height;
    if (depth > deepest) deepest = depth, best = i;
  }
  return best;
}

report::FrontView view_of(const Front::State& front) {
  return {.unlimited = front.unlimited->state().plan,
          .points = front.points,
          .floor_bytes = front.floor_bytes,
          .knee = front.knee,
          .chosen = front.chosen,
          .planning_seconds = front.planning_seconds};
}

Front::Front(std::unique_ptr<State> state) : state_(std::move(state)) {}
Front::Front(Front&&) noexcept = default;
Front& Front::operator=(Front&&) noexcept = default;
Front::~Front() = default;

Result<Front> Front::make(const Model& model, const PlanOptions& options,
                          const SweepOptions& sweep) {
  if (options.budget_bytes || !options.budget.empty() || options.slowdown)
    return error(
        ErrorCode::kUsage,
        "a sweep has budgets of its own; budget_bytes, budget and slowdown must be absent");
  if (sweep.points < 2 || sweep.points > kMostBudgets)
    return error(ErrorCode::kUsage, fmt::format("--points: {} is not a number from 2 to {}",
                                                sweep.points, kMostBudgets));
  LT_ASSIGN(std::vector<BudgetRange> ranges,
            parse_budgets(sweep.budgets, sweep.points, "--budgets"));
  std::optional<Amount> chosen;
  if (!sweep.choose.empty()) {
    LT_ASSIGN(chosen, parse_amount(sweep.choose, "--choose"));
    ranges.push_back({*chosen, *chosen, 1});
  }
  LT_ASSIGN(const Planning planning, prepare_planning(model, options));
  auto made = pipeline::optimize_front(model.state().graph, planning.options,
                                       [&](int64_t floor, int64_t unlimited) {
                                         return bytes_of(ranges, {floor, unlimited});
                                       });
  if (!made) return planning_error(model, made.error());

  auto state = std::make_unique<State>();
  state->floor_bytes = made->floor_bytes;
  state->planning_seconds = made->planning_seconds;
  const MemoryScale scale{made->floor_bytes, made->unlimited.plan.arena_bytes};
  Bounds bounds;
  for (pipeline::FrontPoint& tried : made->points) {
    state->points.push_back(describe(tried, bounds));
    std::optional<Plan>& plan = state->plans.emplace_back();
    if (!tried.made) continue;
    plan = Plan(finish_plan(std::move(*tried.made), planning, model));
  }
  state->unlimited = Plan(finish_plan(std::move(made->unlimited), planning, model));
  state->knee = knee_of(state->points);
  state->chosen =
      choice_of(*state, chosen ? std::optional(bytes_of(*chosen, scale)) : std::nullopt);
  return Front(std::move(state));
}

const std::vector<FrontPoint>& Front::points() const {
  return state_->points;
}
const Plan* Front::plan(size_t point) const {
  return point < state_->plans.size() && state_->plans[point] ? &*state_->plans[point] : nullptr;
}
const Plan& Front::unlimited() const {
  return *state_->unlimited;
}
int64_t Front::peak_before_bytes() const {
  return unlimited().peak_before_bytes();
}
int64_t Front::floor_bytes() const {
  return state_->floor_bytes;
}
double Front::once_seconds() const {
  return unlimited().state().plan.claims.once_seconds;
}
std::optional<size_t> Front::knee() const {
  return state_->knee;
}
std::optional<size_t> Front::chosen() const {
  return state_->chosen;
}
std::string Front::text() const {
  return report::front_text(view_of(*state_));
}
std::string Front::json() const {
  return report::front_json(view_of(*state_));
}
std::string Front::lines() const {
  return report::front_lines(view_of(*state_));
}

}  // namespace lowtide
