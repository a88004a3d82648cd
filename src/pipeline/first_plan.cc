#include "pipeline/first_plan.h"

#include <algorithm>
#include <span>
#include <vector>

#include "pipeline/take_rewrites.h"

namespace lowtide::pipeline {
namespace {

// Numbers of parts that are planned: the next where the first misses the budget, as addresses need
// more than the peak.
constexpr size_t kNumbers = 2;

// What each op once in a known order needs, and hardly more: of each search as much as a closer
// look at labels has.
OptimizeOptions with_little_work(OptimizeOptions options) {
  const int64_t most_units = LabelSearchTuning().far_units;
  order::OrderOptions& order = options.order;
  order.exact_search = order.beam = order.cut_bound = false;
  order.random_restarts = options.pack_retries = 0;
  for (Limits* limits : {&order.limits, &options.pack.limits, &options.schedule.remat.limits})
    limits->max_units = std::min(limits->max_units, most_units);
  options.progress = {};
  return options;
}

void tell(const Trials& trials, const OptimizeOptions& options) {
  if (!options.progress || !trials.best) return;
  plan::Progress progress;
  progress.stage = plan::SearchStage::kParts;
  progress.budget_bytes = *options.budget_bytes;
  progress.seconds = trials.seconds();
  progress.peak_bytes = trials.best->plan.claims.peak_bytes;
  options.progress(progress);
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Result<FirstPlan> first_plan(const ir::Graph& forward, const OptimizeOptions& options,
                             Clock::time_point start) {
  FirstPlan first;
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<Candidate> even, even_candidates(step, options, kNumbers));
  if (even.empty()) return first;
  first.whole = even.front();
  if (first.whole.peak_bytes <= *options.budget_bytes) return first;
  const OptimizeOptions little = with_little_work(options);
  for (const Candidate& candidate : std::span(even).subspan(1)) {
    if (first.trials.best) break;
    LT_RETURN_IF_ERROR(try_all(forward, little, std::span(&candidate, 1), 1, start, first.trials));
  }
  tell(first.trials, options);
  return first;
}

}  // namespace lowtide::pipeline
