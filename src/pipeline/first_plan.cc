#include "pipeline/first_plan.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/prepare.h"
#include "pipeline/take_rewrites.h"

namespace lowtide::pipeline {
namespace {

// Numbers of parts that are planned: the next where the first misses the budget, as addresses need
// more than the peak.
constexpr size_t kNumbers = 2;
// Of the budget, what estimates with reruns have to keep: less where a plan needs more than they
// say.
constexpr int64_t kEighthsOfBudget[] = {8, 7};
// Ops of the step in parts up to which its own schedules are made, in about a second.
constexpr int64_t kMostOpsAnew = 4000;

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

// Of a schedule that is known: a short annealing of it, and no bound but the one that is claimed.
OptimizeOptions with_less_work(OptimizeOptions options) {
  options.schedules_packed = 1;
  remat::RematOptions& remat = options.schedule.remat;
  remat.order_start = remat.cut_start = remat.mixed_start = remat.cut_bound = false;
  remat.greedy_start = remat.chain_start = false;
  remat.limits.max_units = std::min(remat.limits.max_units, LabelSearchTuning().remat_units);
  return options;
}

// Where the schedule of one part does not fit when all parts follow it: those that are made of the
// step in parts itself, by rules and along its chain of stages (remat/remat.h).
OptimizeOptions with_starts_of_its_own(OptimizeOptions options) {
  remat::RematOptions& remat = options.schedule.remat;
  remat.order_start = remat.greedy_start = remat.chain_start = true;
  return options;
}

void tell(const Optimized& made, const OptimizeOptions& options) {
  if (!options.progress) return;
  plan::Progress progress;
  progress.stage = plan::SearchStage::kParts;
  progress.budget_bytes = *options.budget_bytes;
  progress.seconds = made.plan.claims.predicted_seconds;
  progress.peak_bytes = made.plan.claims.peak_bytes;
  options.progress(progress);
}

// One after another, until one keeps the budget, which is told.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_in_turn(const ir::Graph& forward, const OptimizeOptions& little,
                   std::span<const Candidate> candidates, PlanningTime& time,
                   const OptimizeOptions& options, Trials& trials) {
  for (const Candidate& candidate : candidates) {
    if (trials.best) break;
    LT_RETURN_IF_ERROR(try_all(forward, little, std::span(&candidate, 1), 1, time, trials));
  }
  if (trials.best) tell(*trials.best, options);
  return {};
}

bool has_few_ops(const ir::Graph& step, const fission::Labels& labels) {
  return static_cast<int64_t>(step.op_count()) * fission::most_parts(labels) <= kMostOpsAnew;
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status plan_roughly(const ir::Graph& forward, const ir::Graph& step, const OptimizeOptions& options,
                    PlanningTime& time, FirstPlan& first) {
  const OptimizeOptions little = with_less_work(with_little_work(options));
  Trials trials;
  std::vector<Candidate> anew;
  for (const int64_t eighths : kEighthsOfBudget) {
    OptimizeOptions estimated = time.for_plan(options);
    estimated.budget_bytes = *options.budget_bytes / 8 * eighths;
    LT_ASSIGN(const std::vector<Candidate> within, rough_within(step, estimated));
    LT_RETURN_IF_ERROR(try_in_turn(forward, little, within, time, options, trials));
    if (trials.best || within.empty()) break;
    anew.assign(within.begin(), within.begin() + 1);
  }
  if (!trials.best && !anew.empty() && has_few_ops(step, anew.front().labels)) {
    anew.front().starts.clear();
    LT_RETURN_IF_ERROR(
        try_in_turn(forward, with_starts_of_its_own(little), anew, time, options, trials));
  }
  first.rough = std::move(trials.best);
  return {};
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<FirstPlan> first_plan(const ir::Graph& forward, const OptimizeOptions& options,
                             PlanningTime& time) {
  FirstPlan first;
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<Candidate> even,
            even_candidates(step, time.for_plan(options), kNumbers));
  if (even.empty()) return first;
  first.whole = even.front();
  if (first.whole.peak_bytes <= *options.budget_bytes) return first;
  LT_RETURN_IF_ERROR(try_in_turn(forward, with_little_work(options), std::span(even).subspan(1),
                                 time, options, first.trials));
  if (!first.trials.best && options.schedule.recompute)
    LT_RETURN_IF_ERROR(plan_roughly(forward, step, options, time, first));
  return first;
}

}  // namespace lowtide::pipeline
