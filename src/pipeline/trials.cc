#include "pipeline/trials.h"

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/prepare.h"

namespace lowtide::pipeline {
namespace {

constexpr double kManyTrials = 24;  // as progress counts them

OptimizeOptions trial_of(const OptimizeOptions& options, const Candidate& candidate,
                         int64_t share) {
  OptimizeOptions trial = with(options, candidate);
  const auto lessen = [&](int64_t& units) {
    units = std::max(units / share, std::min(units, kTrials.least_units));
  };
  lessen(trial.schedule.remat.limits.max_units);
  lessen(trial.schedule.swap.limits.max_units);
  return tried_only(std::move(trial));
}

// What is told while some are tried: the best of all so far. What is proven is of its own parts.
plan::ProgressFunction told_in_a_trial(const Trials& trials, const OptimizeOptions& options) {
  if (!trials.progress) return {};
  return [&trials, budget = options.budget_bytes](const plan::Progress& of_trial) {
    plan::Progress progress;
    progress.stage = plan::SearchStage::kParts;
    progress.budget_bytes = *budget;
    if (trials.best) {
      progress.seconds = trials.seconds();
      progress.peak_bytes = trials.best->plan.claims.peak_bytes;
    }
    progress.share =
        std::min(1.0, (static_cast<double>(trials.count) + of_trial.share) / kManyTrials);
    trials.progress(progress);
  };
}

// Whether what is known already leaves something to be gained.
bool is_of_use(const Candidate& candidate, const OptimizeOptions& options, const Trials& trials) {
  const double least = candidate.seconds * (1 - kTrials.estimate_error);
  if (options.most_seconds && least > *options.most_seconds) return false;
  if (trials.is_optimal() && trials.of_best.cuts_as(candidate)) return false;
  const double known = trials.to_be_beaten();
  return known == kAnyTime || (candidate.fits && least < known);
}

// The plans, in the order of the candidates.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
std::vector<Result<Optimized>> try_at_once(const ir::Graph& forward, const OptimizeOptions& options,
                                           std::span<const Candidate* const> batch, int64_t share,
                                           const PlanningTime& time, const Trials& trials) {
  const int threads = options.schedule.remat.threads;
  const bool in_parallel = threads > 1 && batch.size() > 1;
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  const auto run = [&](size_t k) {
    OptimizeOptions trial = time.for_plan(trial_of(options, *batch[k], share));
    trial.schedule.remat.limits.max_seconds *= kTrials.time_share;
    if (in_parallel)
      for (int* inner : {&trial.order.threads, &trial.pack.threads, &trial.schedule.remat.threads})
        *inner = std::max(1, *inner / static_cast<int>(batch.size()));
    if (k == 0) trial.progress = told_in_a_trial(trials, options);
    return optimize(forward, trial);
  };
  std::vector<std::future<Result<Optimized>>> others;
  for (size_t k = 1; k < batch.size(); ++k)
    others.push_back(std::async(in_parallel ? std::launch::async : std::launch::deferred, run, k));
  std::vector<Result<Optimized>> made;
  made.push_back(run(0));
  for (auto& other : others) made.push_back(other.get());
  return made;
}

Tried tried_as(const fission::Labels& labels, const Result<Optimized>& made) {
  if (!made) return {.labels = labels};
  return {labels, made->plan.claims.predicted_seconds, runs_of(made->plan)};
}

void take(Optimized tried, const Candidate& candidate, Trials& trials) {
  if (trials.best && tried.plan.claims.predicted_seconds >= trials.seconds()) return;
  trials.best = std::move(tried);
  trials.of_best = candidate;
  trials.of_best.starts.insert(trials.of_best.starts.begin(), runs_of(trials.best->plan));
}

}  // namespace

std::vector<std::string> runs_of(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Step& step : plan.steps)
    if (step.kind == plan::Step::Kind::kCompute) names.push_back(plan.ops[step.op].name);
  return names;
}

OptimizeOptions tried_only(OptimizeOptions options) {
  options.schedules_packed = std::min(options.schedules_packed, kTrials.schedules_packed);
  options.pack.limits.max_units /= kTrials.pack_share;
  options.order.limits.max_units /= kTrials.order_share;
  options.schedule.remat.several_cuts = false;
  options.proof_units = 0;
  options.look_further = options.find_smallest = false;
  options.progress = {};
  options.dump_folder.clear();
  return options;
}

OptimizeOptions with(const OptimizeOptions& options, const Candidate& candidate) {
  OptimizeOptions made = options;
  made.split = candidate.labels;
  if (candidate.query_blocks > 0) made.query_blocks = candidate.query_blocks;
  made.cuts.insert(made.cuts.begin(), candidate.cuts.begin(), candidate.cuts.end());
  std::vector<std::string>& rewrites = made.rewrites.with;
  rewrites.insert(rewrites.end(), candidate.rewrites.begin(), candidate.rewrites.end());
  // What is proven of all parts is proven of the step before them.
  if (!candidate.rewrites.empty()) made.parts_floor.reset();
  made.starts = candidate.starts;
  return made;
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_all(const ir::Graph& forward, const OptimizeOptions& options,
               std::span<const Candidate> chosen, int64_t share, PlanningTime& time,
               Trials& trials) {
  for (size_t next = 0; next < chosen.size();) {
    if ((trials.count > 0 || time.has_plan()) && time.is_late(options)) break;
    if (trials.is_within(options.most_seconds)) break;
    std::vector<const Candidate*> batch;
    for (; next < chosen.size() && batch.size() < kTrials.at_once; ++next)
      if (is_of_use(chosen[next], options, trials)) batch.push_back(&chosen[next]);
    if (batch.empty()) break;
    std::vector<Result<Optimized>> made = try_at_once(forward, options, batch, share, time, trials);
    for (size_t k = 0; k < batch.size(); ++k) {
      ++trials.count;
      trials.last = *batch[k];
      if (!batch[k]->has_moves()) trials.tried.push_back(tried_as(batch[k]->labels, made[k]));
      if (!made[k] && !is_about_budget(made[k].error()) &&
          !is_no_such_step(*batch[k], made[k].error()))
        return tl::unexpected(made[k].error());
      if (!made[k]) continue;
      time.note(*made[k]);
      take(std::move(*made[k]), *batch[k], trials);
    }
  }
  return {};
}

}  // namespace lowtide::pipeline
