#include "pipeline/least_memory.h"

#include <algorithm>
#include <utility>

#include "pipeline/prepare.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LeastMemoryTuning {
  int budgets = 8;          // of the bisection
  int64_t share = 4;        // of the work: the part of it for each of them
  double fineness = 0.005;  // of the arena: nearer budgets are not told apart
  int64_t last_steps = 50;  // in the end, with all of the work: by so much of the arena less
};
constexpr LeastMemoryTuning kLeast;

OptimizeOptions trial_of(const OptimizeOptions& options, int64_t budget) {
  OptimizeOptions trial = options;
  trial.budget_bytes = budget;
  trial.schedule.remat.limits.max_units /= kLeast.share;
  trial.schedule.swap.limits.max_units /= kLeast.share;
  trial.proof_units = 0;
  trial.look_further = trial.find_smallest = false;
  trial.progress = {};
  trial.dump_folder.clear();
  return trial;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): once, for the whole step
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
      static_cast<int64_t>(kLeast.fineness * static_cast<double>(best.plan.arena_bytes));
  LT_ASSIGN(int64_t below, least_bytes(forward, options));
  const auto is_in_time = [&](const Optimized& made) {
    return made.plan.claims.predicted_seconds <= most;
  };
  for (int i = 0; i < kLeast.budgets && best.plan.arena_bytes - below > fineness; ++i) {
    if (rest().schedule.remat.limits.stop_after(0)) break;
    const int64_t budget = below + (best.plan.arena_bytes - below) / 2;
    OptimizeOptions trial = trial_of(rest(), budget);
    trial.most_seconds = most;
    Result<Optimized> made = optimize(forward, trial);
    if (!made && !is_about_budget(made.error())) return made;
    if (made && is_in_time(*made) && made->plan.arena_bytes < best.plan.arena_bytes)
      best = std::move(*made);
    else
      below = budget;
  }
  // All of the work finds a little more: the same budget again, then smaller ones while it does.
  const int64_t step = best.plan.arena_bytes / kLeast.last_steps;
  for (int64_t budget = best.plan.arena_bytes; best.plan.claims.budget_bytes; budget -= step) {
    OptimizeOptions full = cut_as(rest(), best);
    full.budget_bytes = budget;
    Result<Optimized> made = optimize(forward, full);
    if (!made && !is_about_budget(made.error())) return made;
    if (!made || !is_in_time(*made)) break;
    best = std::move(*made);
  }
  best.planning_seconds = seconds_since(start);
  return best;
}

}  // namespace lowtide::pipeline
