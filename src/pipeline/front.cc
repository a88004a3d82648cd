#include "pipeline/front.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "pipeline/budget.h"
#include "pipeline/claims.h"
#include "pipeline/front_in_parts.h"
#include "pipeline/named_runs.h"
#include "pipeline/prepare.h"
#include "pipeline/settle_sums.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FrontTuning {
  int64_t search_part = 2;  // of a budget's work: that part of it for each search, down and up
};
constexpr FrontTuning kFront;

// What is known of one budget.
struct Attempt {
  int64_t budget_bytes = 0;
  std::optional<BudgetSolution> solved;
  bool tried = false;
};

double seconds(const BudgetSolution& solved) {
  return solved.solution.profile.seconds;
}

// The searches of a front. `attempts` have budgets that descend.
class FrontSearch {
 public:
  FrontSearch(const Prepared& ready, const OptimizeOptions& options, int64_t floor)
      : ready_(ready), whole_(options), options_(options), floor_(floor) {
    whole_.schedule.remat.cut_bound = false;  // proven once, for the plan that is taken
    options_ = whole_;
    const auto lessen = [](int64_t& limit) {
      limit = std::max<int64_t>(1, limit / kFront.search_part);
    };
    lessen(options_.schedule.remat.limits.max_units);
    lessen(options_.schedule.swap.limits.max_units);
    lessen(options_.pack.limits.max_units);
    options_.schedule.remat.limits.max_seconds /= static_cast<double>(kFront.search_part);
    options_.find_smallest = false;
  }

  // From more memory to less. What is missed is tried again with all of its work.
  Status descend(std::vector<Attempt>& attempts) {
    searches_ = 2 * attempts.size();
    const OptimizeOptions part = options_;
    const Attempt* before = nullptr;
    for (Attempt& attempt : attempts) {
      if (attempt.budget_bytes < floor_ || cancelled()) break;
      LT_RETURN_IF_ERROR(search(attempt, {before}));
      if (!attempt.solved && !cancelled()) {
        options_.schedule = whole_.schedule;
        LT_RETURN_IF_ERROR(search(attempt, {before}));
        options_.schedule = part.schedule;
      }
      if (attempt.solved) before = &attempt;
    }
    return {};
  }

  // From less memory to more: what does with less is a start for more.
  Status ascend(std::vector<Attempt>& attempts) {
    options_.schedule.remat.cut_start = false;  // what it led to is among the starts
    for (size_t i = attempts.size(); i-- > 0 && !cancelled();) {
      done_ = 2 * attempts.size() - 1 - i;
      const Attempt* less = i + 1 < attempts.size() ? &attempts[i + 1] : nullptr;
      const auto& solved = attempts[i].solved;
      if (solved && solved->status != plan::SolveStatus::kOptimal)
        LT_RETURN_IF_ERROR(search(attempts[i], {&attempts[i], less}));
    }
    return {};
  }

 private:
  bool cancelled() const { return options_.schedule.remat.limits.cancelled(); }

  Status search(Attempt& attempt, std::initializer_list<const Attempt*> neighbours) {
    attempt.tried = true;
    options_.budget_bytes = attempt.budget_bytes;
    if (fits(ready_.unlimited, options_)) {
      attempt.solved = BudgetSolution{ready_.unlimited, plan::SolveStatus::kOptimal, {}};
      return {};
    }
    remat::RematOptions& remat = options_.schedule.remat;
    remat.starts.clear();
    for (const Attempt* neighbour : neighbours)
      if (neighbour != nullptr && neighbour->solved)
        remat.starts.push_back(plan::runs_of(neighbour->solved->solution.sequence));
    if (whole_.progress)
      options_.progress = [this](plan::Progress progress) {
        // What is tried again, or need not be tried, makes the count jump; what is told never
        // falls.
        const double share =
            (static_cast<double>(done_) + progress.share) / static_cast<double>(searches_);
        share_ = std::clamp(share, share_, 1.0);
        progress.share = share_;
        whole_.progress(progress);
      };
    Result<BudgetSolution> found =
        fit_budget(ready_.view, options_, ready_.order.sequence, ready_.unlimited, *ready_.floor);
    ++done_;
    if (!found) return is_about_budget(found.error()) ? Status() : tl::unexpected(found.error());
    if (!attempt.solved || seconds(*found) < seconds(*attempt.solved))
      attempt.solved = std::move(*found);
    return {};
  }

  const Prepared& ready_;
  OptimizeOptions whole_, options_;  // of a budget, and of half of its work
  const int64_t floor_;
  size_t done_ = 0, searches_ = 1;
  double share_ = 0;  // as was told
};

// Each plan is the fastest of all that fit, and of those as fast the one that moves least, then the
// one with the least arena: a step that fits moves nothing, though that may be free.
void make_monotone(std::vector<Attempt>& attempts) {
  const auto better = [](const BudgetSolution& a, const BudgetSolution& b) {
    const auto key = [](const BudgetSolution& one) {
      const plan::SequenceProfile& profile = one.solution.profile;
      return std::tuple(profile.seconds, profile.stored_bytes + profile.loaded_bytes,
                        one.solution.arena_bytes);
    };
    return key(a) < key(b);
  };
  const std::vector<Attempt> all = attempts;
  for (Attempt& attempt : attempts)
    for (const Attempt& other : all) {
      if (!other.solved || other.solved->solution.arena_bytes > attempt.budget_bytes) continue;
      if (attempt.solved && !better(*other.solved, *attempt.solved)) continue;
      attempt.solved = other.solved;
      attempt.solved->bound.reset();  // it is of the other budget
    }
}

// A plan may have come from another budget, where its time was optimal, or here is.
plan::SolveStatus status_of(const Optimized& made) {
  if (plan::is_fastest(made.plan)) return plan::SolveStatus::kOptimal;
  return made.cut_short ? plan::SolveStatus::kLimit : plan::SolveStatus::kFeasible;
}

std::string why_missed(const Attempt& attempt, int64_t floor, int64_t least_arena,
                       std::string_view parts) {
  const auto both = [](int64_t bytes) {
    return fmt::format("{} bytes ({})", bytes, format_bytes(bytes));
  };
  if (attempt.budget_bytes < floor)
    return fmt::format("{} are too few: {} every schedule needs at least {}",
                       both(attempt.budget_bytes), parts, both(floor));
  return fmt::format(
      "{} were {}: {} every schedule needs at least {}; the smallest arena found has {}",
      both(attempt.budget_bytes),
      attempt.tried ? "not reached" : "not tried, as the search ended before", parts, both(floor),
      both(least_arena));
}

// The points of attempts of which at least one was solved.
Result<std::vector<FrontPoint>> make_points(const Prepared& ready, OptimizeOptions options,
                                            const std::vector<Attempt>& attempts, int64_t floor) {
  int64_t least_arena = ready.unlimited.arena_bytes;
  for (const Attempt& attempt : attempts)
    if (attempt.solved) least_arena = std::min(least_arena, attempt.solved->solution.arena_bytes);
  const plan::ProgressFunction tell = options.progress;
  const double searched = search_part(ready.view.problem, options);
  const double proof = (1 - searched) / static_cast<double>(attempts.size());
  std::vector<FrontPoint> points;
  for (const Attempt& attempt : attempts) {
    const double before = searched + proof * static_cast<double>(points.size());
    options.progress = plan::part_of(tell, before, before + proof);
    FrontPoint& point = points.emplace_back();
    point.budget_bytes = attempt.budget_bytes;
    if (!attempt.solved) {
      point.missed = why_missed(attempt, floor, least_arena, in_which_parts(options));
      point.infeasible = attempt.budget_bytes < floor;
      continue;
    }
    options.budget_bytes = attempt.budget_bytes;
    LT_ASSIGN(point.made, write(ready, *attempt.solved, options));
    point.made->schedule_status = status_of(*point.made);
  }
  return points;
}

// One budget by itself: an error tells what stands in its way.
Result<BudgetSolution> fit_or_tell(const Prepared& ready, const OptimizeOptions& options) {
  LT_RETURN_IF_ERROR(check_order_bound(ready, options));
  return fit_budget(ready.view, options, ready.order.sequence, ready.unlimited, *ready.floor);
}

int64_t least_bytes(const Prepared& ready, const OptimizeOptions& options) {
  const plan::ScheduleProblem& problem = ready.view.problem;
  const int64_t floor = ready.floor->bytes;
  return once_only(problem, options) ? std::max(floor, ready.order.lower_bound_bytes) : floor;
}

}  // namespace

Result<Front> optimize_front(const ir::Graph& forward, const OptimizeOptions& options,
                             const ChooseBudgets& choose) {
  return options.split.chosen() ? optimize_front_in_parts(forward, options, choose)
                                : optimize_front_as_given(forward, options, choose);
}

Result<Front> optimize_front_as_given(const ir::Graph& forward, const OptimizeOptions& options,
                                      const ChooseBudgets& choose) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  OptimizeOptions at = options;
  at.budget_bytes.reset();
  find_floor(ready, options);
  Front front;
  LT_ASSIGN(front.unlimited, write(ready, {ready.unlimited, plan::SolveStatus::kOptimal, {}}, at));
  front.floor_bytes = least_bytes(ready, options);
  // Neighbours start from each other's schedules, so all have one order of each sum.
  if (!ready.view.sums.empty()) {
    LT_ASSIGN(ready, settle_sums(ready, ready.unlimited, options));
    ready.settled_floor = proven_floor(
        ready.view.problem, options.schedule.transfers,
        {.enough = ready.floor->bytes, .first = op_named(ready.view.problem, ready.floor->op)});
  }
  std::vector<int64_t> budgets = choose(front.floor_bytes, ready.unlimited.arena_bytes);
  std::sort(budgets.begin(), budgets.end(), std::greater<>());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  if (budgets.empty()) return error(ErrorCode::kUsage, "a front needs at least one budget");

  std::vector<Attempt> attempts;
  for (int64_t budget : budgets) attempts.push_back({budget, {}});
  OptimizeOptions searching = options;
  searching.progress = plan::part_of(options.progress, 0, search_part(ready.view.problem, options));
  FrontSearch search(ready, searching, front.floor_bytes);
  LT_RETURN_IF_ERROR(search.descend(attempts));
  LT_RETURN_IF_ERROR(search.ascend(attempts));
  if (!attempts.front().solved) {
    at.budget_bytes = budgets.front();
    auto last = fit_or_tell(ready, at);
    if (!last)
      return error(last.error().code, fmt::format("none of {} budgets can be kept; the largest: {}",
                                                  budgets.size(), last.error().message));
    attempts.front().solved = std::move(*last);
  }
  make_monotone(attempts);
  LT_ASSIGN(front.points, make_points(ready, at, attempts, front.floor_bytes));
  front.planning_seconds = seconds_since(start);
  return front;
}

}  // namespace lowtide::pipeline
