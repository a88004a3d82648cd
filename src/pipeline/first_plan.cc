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

class FirstPlanner {
 public:
  FirstPlanner(const ir::Graph& forward, const ir::Graph& step, const OptimizeOptions& options,
               PlanningTime& time, const FirstPlanTuning& tuning)
      : forward_(forward), step_(step), options_(options), time_(time), tuning_(tuning) {}

  // NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
  Result<FirstPlan> run() {
    LT_ASSIGN(const std::vector<Candidate> even,
              even_candidates(step_, time_.for_plan(options_), kNumbers));
    if (even.empty()) return std::move(first_);
    first_.whole = even.front();
    if (first_.whole.peak_bytes <= *options_.budget_bytes) return std::move(first_);
    if (even.size() > 1) LT_RETURN_IF_ERROR(plan_whole_before(even[1]));
    LT_RETURN_IF_ERROR(
        try_in_turn(with_little_work(options_), std::span(even).subspan(1), first_.trials));
    if (!first_.trials.best && options_.schedule.recompute) LT_RETURN_IF_ERROR(plan_roughly());
    return std::move(first_);
  }

 private:
  int64_t ops_in_parts(const Candidate& candidate) const {
    return static_cast<int64_t>(step_.op_count()) * fission::most_parts(candidate.labels);
  }

  // One after another, until one keeps the budget, which is told.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_in_turn(const OptimizeOptions& little, std::span<const Candidate> candidates,
                     Trials& trials) {
    for (const Candidate& candidate : candidates) {
      if (trials.best) break;
      LT_RETURN_IF_ERROR(try_all(forward_, little, std::span(&candidate, 1), 1, time_, trials));
    }
    if (trials.best) tell(*trials.best, options_);
    return {};
  }

  // The step in one part with reruns, if it has such a plan, where what is to be planned is so many
  // ops that it takes longer.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status plan_whole_before(const Candidate& next) {
    if (has_tried_whole_ || ops_in_parts(next) <= tuning_.many_ops || !options_.schedule.recompute)
      return {};
    has_tried_whole_ = true;
    Trials trials;
    std::vector<Candidate> missed;
    LT_RETURN_IF_ERROR(try_estimated(whole_within, trials, missed));
    first_.rough = std::move(trials.best);
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status plan_roughly() {
    Trials trials;
    std::vector<Candidate> anew;
    LT_RETURN_IF_ERROR(try_estimated(rough_within, trials, anew));
    if (!trials.best && !anew.empty() && ops_in_parts(anew.front()) <= tuning_.few_ops) {
      anew.resize(1);
      anew.front().starts.clear();
      LT_RETURN_IF_ERROR(try_in_turn(
          with_starts_of_its_own(with_less_work(with_little_work(options_))), anew, trials));
    }
    const auto seconds = [](const std::optional<Optimized>& made) {
      return made ? made->plan.claims.predicted_seconds : kAnyTime;
    };
    if (seconds(trials.best) < seconds(first_.rough)) first_.rough = std::move(trials.best);
    return {};
  }

  // What is estimated to fit with reruns, planned; where that needs more than the estimates say,
  // what is estimated to need less. `missed`: what was planned last, best first, if it missed.
  using Find = Result<std::vector<Candidate>> (*)(const ir::Graph& step,
                                                  const OptimizeOptions& options,
                                                  const LabelSearchTuning& tuning);
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_estimated(Find find, Trials& trials, std::vector<Candidate>& missed) {
    for (const int64_t eighths : kEighthsOfBudget) {
      OptimizeOptions estimated = time_.for_plan(options_);
      estimated.budget_bytes = *options_.budget_bytes / 8 * eighths;
      LT_ASSIGN(std::vector<Candidate> within, find(step_, estimated, {}));
      if (within.empty()) break;
      LT_RETURN_IF_ERROR(plan_whole_before(within.front()));
      if (has_tried_whole_ && find != &whole_within)
        std::erase_if(within, [](const Candidate& one) { return one.labels.whole(); });
      LT_RETURN_IF_ERROR(try_in_turn(with_less_work(with_little_work(options_)), within, trials));
      if (trials.best) break;
      missed = std::move(within);
    }
    return {};
  }

  const ir::Graph& forward_;
  const ir::Graph& step_;
  const OptimizeOptions& options_;
  PlanningTime& time_;
  const FirstPlanTuning tuning_;
  FirstPlan first_;
  bool has_tried_whole_ = false;
};

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<FirstPlan> first_plan(const ir::Graph& forward, const OptimizeOptions& options,
                             PlanningTime& time, const FirstPlanTuning& tuning) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  return FirstPlanner(forward, step, options, time, tuning).run();
}

}  // namespace lowtide::pipeline
