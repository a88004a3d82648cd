#include "pipeline/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "autodiff/training.h"
#include "fission/classes.h"
#include "pipeline/prepare.h"

namespace lowtide::pipeline {
namespace {

// Tuning. Where no row of docs/results.md is named, no benchmark has compared values: by reasoning.
struct SplitTuning {
  // Parts that are tried: each at most twice the one before; beyond 16 kernels are too small here.
  int64_t numbers[8] = {1, 2, 3, 4, 6, 8, 12, 16};
  int64_t trial_share = 8;  // of the work: the part of it for each number
};
constexpr SplitTuning kSplit;

// The most parts that the largest class has.
Result<int64_t> most_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  ir::Graph trained;
  if (options.training) {
    LT_ASSIGN(trained, autodiff::make_training_graph(forward, *options.training));
  }
  const ir::Graph& step = options.training ? trained : forward;
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  return classes.empty() ? 1 : classes.front().least_extent;
}

OptimizeOptions trial_of(const OptimizeOptions& options, int64_t parts) {
  OptimizeOptions trial = options;
  trial.split = parts;
  trial.schedule.remat.limits.max_units /= kSplit.trial_share;
  trial.schedule.swap.limits.max_units /= kSplit.trial_share;
  trial.proof_units = 0;
  trial.look_further = trial.find_smallest = false;
  trial.progress = {};
  trial.dump_folder.clear();
  return trial;
}

}  // namespace

Result<int64_t> least_bytes_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  LT_ASSIGN(const int64_t most, most_parts(forward, options));
  OptimizeOptions asked = options;
  int64_t least = INT64_MAX;
  for (const int64_t parts : kSplit.numbers) {
    if (parts > most) break;
    asked.split = parts;
    LT_ASSIGN(const int64_t bytes, least_bytes(forward, asked));
    least = std::min(least, bytes);
  }
  return least;
}

Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  OptimizeOptions whole = options;
  whole.split = 1;
  if (!options.budget_bytes) return optimize(forward, whole);
  LT_ASSIGN(const int64_t most, most_parts(forward, options));
  std::optional<Optimized> best;
  int64_t best_parts = 1, last = 1;
  bool all_infeasible = true;
  for (const int64_t parts : kSplit.numbers) {
    if (parts > most) break;
    last = parts;
    Result<Optimized> tried =
        optimize(forward, after(trial_of(options, parts), seconds_since(start)));
    if (!tried) {
      if (!is_about_budget(tried.error())) return tried;
      all_infeasible &= tried.error().code == ErrorCode::kInfeasible;
      continue;
    }
    const plan::Claims& claims = tried->plan.claims;
    if (best && claims.once_seconds >= best->plan.claims.predicted_seconds) break;
    const bool is_done = claims.predicted_seconds <= claims.once_seconds || tried->cut_short;
    if (!best || claims.predicted_seconds < best->plan.claims.predicted_seconds)
      best = std::move(*tried), best_parts = parts;
    if (is_done) break;
  }
  whole = after(options, seconds_since(start));
  whole.split = best ? best_parts : last;
  Result<Optimized> full = optimize(forward, whole);
  if (!best && !full && is_about_budget(full.error())) {
    all_infeasible &= full.error().code == ErrorCode::kInfeasible;
    return error(all_infeasible ? ErrorCode::kInfeasible : ErrorCode::kLimit,
                 fmt::format("{} (in {} parts, and in fewer)", full.error().message, whole.split));
  }
  const bool is_better =
      full && (!best || full->plan.claims.predicted_seconds <= best->plan.claims.predicted_seconds);
  if (!is_better && best) full = std::move(*best);
  if (full) full->planning_seconds = seconds_since(start);
  return full;
}

}  // namespace lowtide::pipeline
