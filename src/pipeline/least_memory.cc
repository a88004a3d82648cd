#include "pipeline/least_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "fission/classes.h"
#include "fission/labels.h"
#include "fission/passes.h"
#include "pipeline/label_search.h"
#include "pipeline/parts_floor.h"
#include "pipeline/prepare.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LeastMemoryTuning {
  int budgets = 8;          // of the bisection
  int64_t share = 4;        // of the work: the part of it for each of them
  double fineness = 0.005;  // of the arena: nearer budgets are not told apart
  int64_t last_steps = 50;  // around what is estimated: by so much of the arena less or more
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

// The options in the parts of a plan, from its schedule on.
OptimizeOptions from(const OptimizeOptions& options, const Optimized& best) {
  OptimizeOptions made = cut_as(options, best);
  made.starts = {runs_of(best.plan)};
  return made;
}

// A plan within the trial's budget. Parts that are to be chosen are those of the best plan so far,
// where these are in time; that spares a search for others. Where it has none, that search begins
// with the whole step anyway.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes here for a time only, not for a budget
Result<Optimized> plan_within(const ir::Graph& forward, const OptimizeOptions& trial,
                              const Optimized& best) {
  const bool is_whole = best.split.whole() && best.cuts.empty() && best.query_blocks <= 1;
  if (!trial.split.chosen() || is_whole) return optimize(forward, trial);
  Result<Optimized> made = optimize(forward, tried_only(from(trial, best)));
  if (made && made->plan.claims.predicted_seconds <= *trial.most_seconds) return made;
  if (!made && !is_about_budget(made.error())) return made;
  return optimize(forward, trial);
}

// By labels without transfers, of which the search looks at more, or with them.
Result<bool> is_estimated_in(const ir::Graph& step, const ir::Graph& forward,
                             const OptimizeOptions& options, double most_seconds) {
  const bool may_move = options.schedule.transfers && !options.slow_tiers.empty();
  const auto start = Clock::now();
  for (const bool transfers : {false, true}) {
    if (transfers && !may_move) continue;
    OptimizeOptions how = after(options, seconds_since(start));
    how.schedule.transfers = transfers;
    LT_ASSIGN(const StepMoves moves, step_moves(forward, step, how));
    LT_ASSIGN(const bool found, any_labels_fit(step, how, most_seconds, moves));
    if (found) return true;
  }
  return false;
}

// The least budget within which the label search estimates a step in time, by all levers that it
// knows: bisection between `below` and `above`; a budget takes about a second, with transfers
// several. None where estimates say too little (split.h: parts that wait for each other), or
// nothing below `above`.
Result<std::optional<int64_t>> estimated_least(const ir::Graph& forward,
                                               const OptimizeOptions& options, int64_t below,
                                               int64_t above, double most_seconds) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  if (classes.empty()) return std::optional<int64_t>();
  LT_ASSIGN(const fission::Passes passes, fission::passes_of(step, classes.front()));
  if (passes.count > 1) return std::optional<int64_t>();
  const auto start = Clock::now();
  std::optional<int64_t> least;
  const int64_t fineness = above / kLeast.last_steps;
  while (above - below > fineness) {
    OptimizeOptions at = after(options, seconds_since(start));
    if (options.schedule.remat.limits.stop_after(seconds_since(start))) break;
    at.budget_bytes = below + (above - below) / 2;
    LT_ASSIGN(const bool is_in_time, is_estimated_in(step, forward, at, most_seconds));
    (is_in_time ? above : below) = *at.budget_bytes;
    if (is_in_time) least = above;
  }
  return least;
}

// A search for one step: the best plan so far, and a budget below which nothing is to be expected.
class LeastMemory {
 public:
  LeastMemory(const ir::Graph& forward, const OptimizeOptions& options, double slowdown)
      : forward_(forward), options_(options), slowdown_(slowdown) {}

  // NOLINTNEXTLINE(misc-no-recursion): once, for the whole step
  Result<Optimized> run() {
    LT_RETURN_IF_ERROR(narrow());
    LT_RETURN_IF_ERROR(look_lowest());
    LT_RETURN_IF_ERROR(polish());
    best_->planning_seconds = seconds_since(start_);
    best_->cut_short |= stopped();
    return std::move(*best_);
  }

 private:
  OptimizeOptions rest() const { return after(options_, seconds_since(start_)); }
  bool stopped() const { return options_.schedule.remat.limits.stop_after(seconds_since(start_)); }
  int64_t arena() const { return best_->plan.arena_bytes; }
  bool is_in_time(const Optimized& made) const {
    return made.plan.claims.predicted_seconds <= most_seconds_;
  }

  // All but the last search with all of the work.
  Status narrow() {
    if (options_.split.chosen()) {
      LT_ASSIGN(options_.parts_floor, floor_in_any_parts(forward_, options_));
      below_ = options_.parts_floor->bytes;
    } else {
      LT_ASSIGN(below_, least_bytes(forward_, options_));
    }
    LT_RETURN_IF_ERROR(begin());
    if (!options_.split.chosen()) return bisect(options_, below_);
    LT_RETURN_IF_ERROR(narrow_in_one_part());
    const int64_t in_one_part = arena();
    LT_ASSIGN(const std::optional<int64_t> estimated,
              estimated_least(forward_, rest(), below_, in_one_part, most_seconds_));
    if (estimated) LT_RETURN_IF_ERROR(around(*estimated));
    return arena() < in_one_part ? Status() : bisect(options_, below_);
  }

  // What the whole step needs comes within seconds, and is what there is if time ends before parts
  // are found.
  Status narrow_in_one_part() {
    OptimizeOptions whole = options_;
    whole.split = {};
    LT_ASSIGN(int64_t below, least_bytes(forward_, whole));
    return bisect(whole, below);
  }

  // Parts that are given begin with their own plan, those that are to be chosen with that of the
  // whole step.
  Status begin() {
    OptimizeOptions whole = options_;
    whole.split = {};
    const OptimizeOptions& first = options_.split.chosen() ? whole : options_;
    LT_ASSIGN(best_, optimize(forward_, first));
    double once = best_->plan.claims.once_seconds;
    if (has_given_parts(first)) {
      whole.cuts.clear();
      LT_ASSIGN(const Optimized uncut, optimize(forward_, whole));
      once = uncut.plan.claims.once_seconds;
    }
    most_seconds_ = once * (1 + slowdown_);
    if (is_in_time(*best_)) return {};
    return too_slow(options_, best_->plan.claims.predicted_seconds / once - 1, slowdown_);
  }

  // `below`: nothing is expected there.
  Status bisect(const OptimizeOptions& how, int64_t& below) {
    const auto fineness = static_cast<int64_t>(kLeast.fineness * static_cast<double>(arena()));
    for (int i = 0; i < kLeast.budgets && arena() - below > fineness && !stopped(); ++i)
      LT_RETURN_IF_ERROR(attempt(how, below + (arena() - below) / 2, below).status);
    return {};
  }

  // Down from what was estimated in small steps, or up in larger and larger ones.
  Status around(int64_t estimated) {
    int64_t step = std::max<int64_t>(1, estimated / kLeast.last_steps);
    int64_t budget = estimated;
    bool has_missed = false, has_kept = false;
    for (int i = 0; i < kLeast.budgets && !stopped(); ++i) {
      if (budget <= below_ || budget >= arena()) break;
      const Attempt made = attempt(options_, budget, below_);
      LT_RETURN_IF_ERROR(made.status);
      (made.is_kept ? has_kept : has_missed) = true;
      if (has_kept && has_missed) break;
      budget = made.is_kept ? arena() - step : budget + step;
      if (!made.is_kept) step *= 2;
    }
    return {};
  }

  struct Attempt {
    Status status;
    bool is_kept = false;
  };

  // Takes the plan within a budget where it is in time; else nothing is expected below.
  Attempt attempt(const OptimizeOptions& how, int64_t budget, int64_t& below) {
    OptimizeOptions trial = trial_of(after(how, seconds_since(start_)), budget);
    trial.most_seconds = most_seconds_;
    Result<Optimized> made = plan_within(forward_, trial, *best_);
    if (!made && !is_about_budget(made.error())) return {tl::unexpected(made.error())};
    const bool is_kept = made && is_in_time(*made) && made->plan.arena_bytes < arena();
    if (is_kept)
      best_ = std::move(*made);
    else
      below = budget;
    lacks_schedules_ |= !made;
    return {{}, is_kept};
  }

  // Where a budget was missed for want of a schedule, not of time: what a refusal of it would name
  // as the smallest arena that is found.
  Status look_lowest() {
    if (!lacks_schedules_ || stopped()) return {};
    OptimizeOptions full = cut_as(rest(), *best_);
    LT_ASSIGN(const std::optional<int64_t> smallest, smallest_arena(forward_, full));
    if (!smallest || *smallest >= arena() || stopped()) return {};
    full = after(full, seconds_since(start_));
    full.budget_bytes = smallest;
    full.find_smallest = true;
    Result<Optimized> made = optimize(forward_, full);
    if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
    if (made && is_in_time(*made) && made->plan.arena_bytes < arena()) best_ = std::move(*made);
    return {};
  }

  // With all of the work, and what only a plan that somebody gets is worth.
  Status polish() {
    if (!best_->plan.claims.budget_bytes || stopped()) return {};
    OptimizeOptions full = from(rest(), *best_);
    full.budget_bytes = arena();
    Result<Optimized> made = optimize(forward_, full);
    if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
    if (made && is_in_time(*made)) best_ = std::move(*made);
    return {};
  }

  const Clock::time_point start_ = Clock::now();
  const ir::Graph& forward_;
  OptimizeOptions options_;
  const double slowdown_;
  std::optional<Optimized> best_;
  double most_seconds_ = 0;
  bool lacks_schedules_ = false;  // for some budget none was found, whatever time it takes
  int64_t below_ = 0;
};

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> least_memory(const ir::Graph& forward, const OptimizeOptions& options,
                               double slowdown) {
  return LeastMemory(forward, options, slowdown).run();
}

}  // namespace lowtide::pipeline
