#include "pipeline/least_memory.h"

#include <algorithm>
#include <utility>

#include "pipeline/prepare.h"

namespace lowtide::pipeline {
namespace {

// Chosen by reasoning: 2^-8 of the way from floor to arena is finer than what searches differ by.
constexpr int kBudgets = 8;
constexpr int64_t kShare = 4;        // of the work, for each of them
constexpr int64_t kLastSteps = 50;   // of the arena, in the end: 2 % each
constexpr double kFineness = 0.005;  // of the arena: nearer budgets are not told apart

OptimizeOptions trial_of(const OptimizeOptions& options, int64_t budget) {
  OptimizeOptions trial = options;
  trial.budget_bytes = budget;
  trial.schedule.remat.limits.max_units /= kShare;
  trial.schedule.swap.limits.max_units /= kShare;
  trial.proof_units = 0;
  trial.look_further = trial.find_smallest = false;
  trial.progress = {};
  trial.dump_folder.clear();
  return trial;
}

}  // namespace

Result<Optimized> least_memory(const ir::Graph& forward, const OptimizeOptions& options,
                               double slowdown) {
  const auto start = Clock::now();
  const auto rest = [&] { return after(options, seconds_since(start)); };
  // A split is compared with the whole step, and starts from what that needs.
  OptimizeOptions whole = options;
  whole.split = {};
  Result<Optimized> found =
      options.split.whole() ? optimize(forward, whole) : least_memory(forward, whole, slowdown);
  if (!found) return found;
  Optimized best = std::move(*found);
  // Of the whole step, whatever its budget.
  const double most = best.plan.claims.once_seconds * (1 + slowdown);
  const auto fineness =
      static_cast<int64_t>(kFineness * static_cast<double>(best.plan.arena_bytes));
  LT_ASSIGN(int64_t below, least_bytes(forward, options));
  const auto is_in_time = [&](const Optimized& made) {
    return made.plan.claims.predicted_seconds <= most;
  };
  for (int i = 0; i < kBudgets && best.plan.arena_bytes - below > fineness; ++i) {
    if (rest().schedule.remat.limits.stop_after(0)) break;
    const int64_t budget = below + (best.plan.arena_bytes - below) / 2;
    Result<Optimized> made = optimize(forward, trial_of(rest(), budget));
    if (!made && !is_about_budget(made.error())) return made;
    if (made && is_in_time(*made) && made->plan.arena_bytes < best.plan.arena_bytes)
      best = std::move(*made);
    else
      below = budget;
  }
  // All of the work finds a little more: the same budget again, then smaller ones while it does.
  const int64_t step = best.plan.arena_bytes / kLastSteps;
  for (int64_t budget = best.plan.arena_bytes; best.plan.claims.budget_bytes; budget -= step) {
    OptimizeOptions full = rest();
    full.budget_bytes = budget;
    full.split = best.split;
    Result<Optimized> made = optimize(forward, full);
    if (!made && !is_about_budget(made.error())) return made;
    if (!made || !is_in_time(*made)) break;
    best = std::move(*made);
  }
  best.planning_seconds = seconds_since(start);
  return best;
}

}  // namespace lowtide::pipeline
