#include "pipeline/least_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "fission/labels.h"
#include "pipeline/parts_floor.h"
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

bool has_given_parts(const OptimizeOptions& options) {
  return !options.split.chosen() && (!options.split.whole() || !options.cuts.empty());
}

// Of parts that take too long by themselves: each op once is the least that there is.
tl::unexpected<Error> too_slow(const OptimizeOptions& options, double share, double slowdown) {
  const double least = std::ceil(1e3 * share) / 10;
  const std::string parts =
      options.split.whole() ? "these cuts" : fission::print(options.split) + " parts";
  return error(ErrorCode::kInfeasible,
               fmt::format("--slowdown: in {} the step takes at least {:.1f} % longer than each op "
                           "once in one part, {:.4g} % are allowed; give --slowdown {:.1f}% or "
                           "fewer parts",
                           parts, least, 100 * slowdown, least));
}

// What a search begins with, and how long a step may take.
struct Start {
  Optimized made;
  double most_seconds = 0;
};

// Parts that are given begin with their own plan, those that are to be chosen are compared with the
// whole step and begin with what that needs.
// NOLINTNEXTLINE(misc-no-recursion): once, for the whole step
Result<Start> start_of(const ir::Graph& forward, const OptimizeOptions& options, double slowdown) {
  OptimizeOptions whole = options;
  whole.split = {};
  if (options.split.chosen()) {
    LT_ASSIGN(Optimized made, least_memory(forward, whole, slowdown));
    const double most = made.plan.claims.once_seconds * (1 + slowdown);
    return Start{std::move(made), most};
  }
  LT_ASSIGN(Optimized made, optimize(forward, options));
  double once = made.plan.claims.once_seconds;
  if (has_given_parts(options)) {
    whole.cuts.clear();
    LT_ASSIGN(const Optimized uncut, optimize(forward, whole));
    once = uncut.plan.claims.once_seconds;
  }
  const double seconds = made.plan.claims.predicted_seconds;
  if (seconds > once * (1 + slowdown)) return too_slow(options, seconds / once - 1, slowdown);
  return Start{std::move(made), once * (1 + slowdown)};
}

// A plan within the trial's budget. Parts that are to be chosen are those of the best plan so far,
// where these are in time; that spares a search for others.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes here for a time only, not for a budget
Result<Optimized> plan_within(const ir::Graph& forward, const OptimizeOptions& trial,
                              const Optimized& best) {
  if (!trial.split.chosen()) return optimize(forward, trial);
  Result<Optimized> made = optimize(forward, cut_as(trial, best));
  if (made && made->plan.claims.predicted_seconds <= *trial.most_seconds) return made;
  if (!made && !is_about_budget(made.error())) return made;
  return optimize(forward, trial);
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): once, for the whole step
Result<Optimized> least_memory(const ir::Graph& forward, const OptimizeOptions& options,
                               double slowdown) {
  const auto start = Clock::now();
  OptimizeOptions asked = options;
  int64_t below = 0;
  if (options.split.chosen()) {
    LT_ASSIGN(asked.parts_floor, floor_in_any_parts(forward, options));
    below = asked.parts_floor->bytes;
  } else {
    LT_ASSIGN(below, least_bytes(forward, options));
  }
  const auto rest = [&] { return after(asked, seconds_since(start)); };
  const auto stopped = [&] { return asked.schedule.remat.limits.stop_after(seconds_since(start)); };
  LT_ASSIGN(Start begin, start_of(forward, asked, slowdown));
  Optimized best = std::move(begin.made);
  const double most = begin.most_seconds;
  const auto fineness =
      static_cast<int64_t>(kLeast.fineness * static_cast<double>(best.plan.arena_bytes));
  const auto is_in_time = [&](const Optimized& made) {
    return made.plan.claims.predicted_seconds <= most;
  };
  for (int i = 0; i < kLeast.budgets && best.plan.arena_bytes - below > fineness; ++i) {
    if (stopped()) break;
    const int64_t budget = below + (best.plan.arena_bytes - below) / 2;
    OptimizeOptions trial = trial_of(rest(), budget);
    trial.most_seconds = most;
    Result<Optimized> made = plan_within(forward, trial, best);
    if (!made && !is_about_budget(made.error())) return made;
    if (made && is_in_time(*made) && made->plan.arena_bytes < best.plan.arena_bytes)
      best = std::move(*made);
    else
      below = budget;
  }
  // All of the work finds a little more: the same budget again, then smaller ones while it does.
  const int64_t step = std::max<int64_t>(1, best.plan.arena_bytes / kLeast.last_steps);
  for (int64_t budget = best.plan.arena_bytes; best.plan.claims.budget_bytes && !stopped();
       budget -= step) {
    OptimizeOptions full = cut_as(rest(), best);
    full.budget_bytes = budget;
    Result<Optimized> made = optimize(forward, full);
    if (!made && !is_about_budget(made.error())) return made;
    if (!made || !is_in_time(*made)) break;
    best = std::move(*made);
  }
  best.planning_seconds = seconds_since(start);
  best.cut_short |= stopped();
  return best;
}

}  // namespace lowtide::pipeline
