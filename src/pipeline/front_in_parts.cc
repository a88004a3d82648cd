#include "pipeline/front_in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "pipeline/named_runs.h"
#include "pipeline/parts_floor.h"
#include "plan/tick_scale.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FrontInPartsTuning {
  // Of the work, as progress tells it: the whole step's front, as each budget may be planned twice
  // in parts.
  double whole_share = 1.0 / 3;
};
constexpr FrontInPartsTuning kFrontInParts;

double seconds_of(const Optimized& made) {
  return made.plan.claims.predicted_seconds;
}

bool is_faster(const Optimized& made, const FrontPoint& point) {
  return !point.made || seconds_of(made) < seconds_of(*point.made);
}

// The whole step's front; where no budget can be kept by it, one without plans.
Result<Front> whole_front(const ir::Graph& forward, const OptimizeOptions& options,
                          const ChooseBudgets& choose, int64_t floor_bytes) {
  OptimizeOptions whole = options;
  whole.split = {};
  whole.progress = plan::part_of(options.progress, 0, kFrontInParts.whole_share);
  std::vector<int64_t> budgets;
  auto made = optimize_front_as_given(forward, whole, [&](int64_t floor, int64_t unlimited) {
    budgets = choose(std::min(floor, floor_bytes), unlimited);
    return budgets;
  });
  if (made) {
    made->floor_bytes = std::min(made->floor_bytes, floor_bytes);
    return made;
  }
  if (!is_about_budget(made.error()) || budgets.empty()) return made;
  Front front;
  LT_ASSIGN(front.unlimited, optimize(forward, whole));
  front.floor_bytes = floor_bytes;
  std::sort(budgets.begin(), budgets.end(), std::greater<>());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  for (const int64_t budget : budgets)
    front.points.push_back({.budget_bytes = budget, .missed = made.error().message});
  return front;
}

// The plan of a smaller budget, said of this one: what was proven of the time may not hold here.
std::optional<Optimized> said_of(const Optimized& made, int64_t budget_bytes) {
  Optimized now = made;
  plan::Claims& claims = now.plan.claims;
  claims.budget_bytes = budget_bytes;
  claims.certificate.time.reset();
  claims.certificate.cases.reset();
  const plan::TickScale scale(now.plan);
  claims.lower_bound_ticks = scale.once();
  claims.lower_bound_seconds =
      std::min(scale.bound_seconds(scale.once(), claims.once_seconds, !now.plan.slow_tiers.empty()),
               claims.predicted_seconds);
  if (now.schedule_status == plan::SolveStatus::kOptimal && !plan::is_fastest(now.plan))
    now.schedule_status = plan::SolveStatus::kFeasible;
  if (!verify::verify(now.plan).ok()) return std::nullopt;
  return now;
}

class PartsOfPoints {
 public:
  PartsOfPoints(const ir::Graph& forward, const OptimizeOptions& options)
      : forward_(forward), options_(options) {}

  // From more memory to less: the parts that are best for each budget.
  Status choose(Front& front) {
    for (FrontPoint& point : front.points) {
      const bool is_free =
          point.made && seconds_of(*point.made) <= point.made->plan.claims.once_seconds;
      if (point.budget_bytes < front.floor_bytes)
        point.missed = fmt::format("{} bytes ({}) are too few: {}", point.budget_bytes,
                                   format_bytes(point.budget_bytes), say(*options_.parts_floor));
      else if (!is_free && !cancelled())
        LT_RETURN_IF_ERROR(take(point, options_));
      ++done_;
      tell(front.points.size());
    }
    return {};
  }

  // From less memory to more: the parts of the smaller budget, where its plan is faster.
  Status make_monotone(Front& front) {
    for (size_t i = front.points.size(); i-- > 1;) {
      const FrontPoint& less = front.points[i];
      FrontPoint& more = front.points[i - 1];
      if (!less.made || !is_faster(*less.made, more)) continue;
      if (!cancelled()) LT_RETURN_IF_ERROR(take(more, cut_as(options_, *less.made)));
      if (!is_faster(*less.made, more)) continue;
      if (auto said = said_of(*less.made, more.budget_bytes)) more.made = std::move(said);
    }
    return {};
  }

 private:
  bool cancelled() const { return options_.schedule.remat.limits.cancelled(); }

  void tell(size_t points) const {
    if (!options_.progress) return;
    plan::Progress progress;
    progress.share = kFrontInParts.whole_share + (1 - kFrontInParts.whole_share) *
                                                     static_cast<double>(done_) /
                                                     static_cast<double>(points);
    options_.progress(progress);
  }

  Status take(FrontPoint& point, OptimizeOptions options) const {
    options.budget_bytes = point.budget_bytes;
    options.progress = {};
    auto made = optimize(forward_, options);
    if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
    if (!made && !point.made) {
      point.missed = made.error().message;
      point.infeasible = made.error().code == ErrorCode::kInfeasible;
    }
    if (made && is_faster(*made, point)) point.made = std::move(*made);
    return {};
  }

  const ir::Graph& forward_;
  const OptimizeOptions& options_;
  size_t done_ = 0;
};

}  // namespace

Result<Front> optimize_front_in_parts(const ir::Graph& forward, const OptimizeOptions& options,
                                      const ChooseBudgets& choose) {
  const auto start = Clock::now();
  OptimizeOptions chosen = options;
  chosen.split = {.parts = 0};
  LT_ASSIGN(chosen.parts_floor, floor_in_any_parts(forward, chosen));
  LT_ASSIGN(Front front, whole_front(forward, chosen, choose, chosen.parts_floor->bytes));
  PartsOfPoints parts(forward, chosen);
  LT_RETURN_IF_ERROR(parts.choose(front));
  LT_RETURN_IF_ERROR(parts.make_monotone(front));
  const bool found = std::any_of(front.points.begin(), front.points.end(),
                                 [](const FrontPoint& point) { return point.made.has_value(); });
  if (!found)
    return error(front.points.front().infeasible ? ErrorCode::kInfeasible : ErrorCode::kLimit,
                 fmt::format("none of {} budgets can be kept; the largest: {}", front.points.size(),
                             front.points.front().missed));
  front.planning_seconds = seconds_since(start);
  return front;
}

}  // namespace lowtide::pipeline
