#include "pipeline/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/passes.h"
#include "fission/scale.h"
#include "pipeline/label_search.h"
#include "pipeline/more_cuts.h"
#include "pipeline/parts_floor.h"
#include "pipeline/prepare.h"
#include "pipeline/query_blocks.h"
#include "pipeline/take_rewrites.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SplitTuning {
  int64_t trial_share = 8;  // of the work: the part of it for each candidate, and at least:
  int64_t least_trial_units = 200'000'000;  // with less BERT's candidates within a fifth all missed
  size_t trials = 4;                        // candidates that get so much
  size_t moving_trials = 1;                 // with a link, each with all of the work
  // More of them while the best is so far above its bound: searches of tight budgets differ.
  size_t more_trials = 4;
  double loose = 0.02;         // of the seconds
  double worth_blocks = 0.01;  // of each op once: with less extra time, attention stays whole
  size_t block_trials = 2;     // candidates with attention in blocks
  // Cuts beside the labels: so many trials, fewer where a trial is of very many ops.
  size_t cut_trials = 8;
  size_t cut_trial_ops = 16'000;
  int64_t parts_beside_cuts = 4;  // where nothing fits without them
  size_t second_trials = 2;       // where none of them fits: how many get all of the work
  double estimate_error = 0.01;   // of seconds; candidates were off by less ("In parts")
  // Where no candidate fits: parts, each at most twice the one before; beyond 16 kernels are small.
  int64_t numbers[7] = {2, 3, 4, 6, 8, 12, 16};
};
constexpr SplitTuning kSplit;

OptimizeOptions with(const OptimizeOptions& options, const Candidate& candidate) {
  OptimizeOptions made = options;
  made.split = candidate.labels;
  if (candidate.query_blocks > 0) made.query_blocks = candidate.query_blocks;
  made.cuts.insert(made.cuts.end(), candidate.cuts.begin(), candidate.cuts.end());
  made.starts = candidate.starts;
  return made;
}

OptimizeOptions trial_of(const OptimizeOptions& options, const Candidate& candidate,
                         int64_t share) {
  OptimizeOptions trial = with(options, candidate);
  const auto lessen = [&](int64_t& units) {
    units = std::max(units / share, std::min(units, kSplit.least_trial_units));
  };
  lessen(trial.schedule.remat.limits.max_units);
  lessen(trial.schedule.swap.limits.max_units);
  trial.schedule.remat.several_cuts = false;
  trial.proof_units = 0;
  trial.look_further = trial.find_smallest = false;
  trial.progress = {};
  trial.dump_folder.clear();
  return trial;
}

// The plan's schedule, for the search that comes after it. What moves is no part of it.
std::vector<std::string> runs_of(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Step& step : plan.steps)
    if (step.kind == plan::Step::Kind::kCompute) names.push_back(plan.ops[step.op].name);
  return names;
}

// The best candidates, and the best without levels.
std::vector<Candidate> chosen_of(const std::vector<Candidate>& candidates, size_t trials) {
  std::vector<Candidate> chosen;
  bool has_even = false;
  for (const Candidate& candidate : candidates) {
    const bool is_even = candidate.labels.nests.empty();
    if (candidate.labels.whole() || (chosen.size() >= trials && (has_even || !is_even))) continue;
    has_even |= is_even;
    chosen.push_back(candidate);
  }
  return chosen;
}

// The best candidates but those.
std::vector<Candidate> more_than(const std::vector<Candidate>& chosen,
                                 const std::vector<Candidate>& candidates) {
  std::vector<Candidate> more;
  for (const Candidate& candidate : candidates) {
    const bool is_known = std::any_of(chosen.begin(), chosen.end(), [&](const Candidate& other) {
      return other.labels == candidate.labels;
    });
    if (candidate.can_fit() && !candidate.labels.whole() && !is_known &&
        more.size() < kSplit.more_trials)
      more.push_back(candidate);
  }
  return more;
}

// Where what was estimated does not fit: from few parts to many.
std::vector<Candidate> even_ones(int64_t most) {
  std::vector<Candidate> even;
  for (const int64_t parts : kSplit.numbers)
    if (parts <= most) even.push_back({.labels = {.parts = parts}});
  return even;
}

// Where parts wait for each other (fission/passes.h), what one part needs says too little: values
// made anew are used part by part, which estimates do not count. So the first numbers are planned,
// whatever is estimated of them.
Result<std::vector<Candidate>> without_estimates(const ir::Graph& step) {
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  if (classes.empty()) return std::vector<Candidate>{};
  LT_ASSIGN(const fission::Passes passes, fission::passes_of(step, classes.front()));
  std::vector<Candidate> numbers;
  if (passes.count > 1) numbers = even_ones(classes.front().least_extent);
  if (numbers.size() > kSplit.trials) numbers.resize(kSplit.trials);
  for (Candidate& candidate : numbers) candidate.fits = true;
  return numbers;
}

// The trials of one call.
struct Trials {
  std::optional<Optimized> best;
  Candidate of_best, last;
  size_t count = 0;

  double seconds() const { return best->plan.claims.predicted_seconds; }
  bool is_within(std::optional<double> seconds_at_most) const {
    return best && seconds_at_most && seconds() <= *seconds_at_most;
  }
  bool is_loose() const {
    return best && best->plan.claims.lower_bound_seconds < seconds() * (1 - kSplit.loose);
  }
};

// Error: what has nothing to do with the budget.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_all(const ir::Graph& forward, const OptimizeOptions& options,
               std::span<const Candidate> chosen, int64_t share, Clock::time_point start,
               Trials& trials) {
  const Limits& limits = options.schedule.remat.limits;
  for (const Candidate& candidate : chosen) {
    if (trials.count > 0 && limits.stop_after(seconds_since(start))) break;
    if (trials.is_within(options.most_seconds)) break;
    const double least = candidate.least_seconds() * (1 - kSplit.estimate_error);
    if (options.most_seconds && least > *options.most_seconds) continue;
    if (trials.best && (!candidate.can_fit() || least >= trials.seconds())) continue;
    Result<Optimized> tried =
        optimize(forward, after(trial_of(options, candidate, share), seconds_since(start)));
    ++trials.count;
    trials.last = candidate;
    if (!tried && !is_about_budget(tried.error())) return tl::unexpected(tried.error());
    if (!tried) continue;
    const bool is_done = tried->cut_short;
    if (!trials.best || tried->plan.claims.predicted_seconds < trials.seconds()) {
      trials.best = std::move(*tried);
      trials.of_best = candidate;
      trials.of_best.starts.insert(trials.of_best.starts.begin(), runs_of(trials.best->plan));
    }
    if (is_done) break;
  }
  return {};
}

// What the label search finds, best first, until one is good enough.
template <class TrySome>
Status try_candidates(const ir::Graph& forward, const OptimizeOptions& options,
                      const TrySome& try_some, Trials& trials) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<Candidate> numbers, without_estimates(step));
  LT_RETURN_IF_ERROR(try_some(numbers, kSplit.trial_share));
  if (trials.is_within(options.most_seconds)) return {};
  const bool is_known = !numbers.empty() && trials.best;
  const double below = is_known ? trials.seconds() : kAnyTime;
  const double of_use = options.most_seconds.value_or(kAnyTime) / (1 - kSplit.estimate_error);
  LT_ASSIGN(const std::vector<Candidate> candidates,
            label_candidates(step, options, {}, std::min(below, of_use)));
  const std::vector<Candidate> chosen = chosen_of(candidates, kSplit.trials);
  LT_RETURN_IF_ERROR(try_some(chosen, kSplit.trial_share));
  if (trials.is_loose())
    LT_RETURN_IF_ERROR(try_some(more_than(chosen, candidates), kSplit.trial_share));
  if (options.most_seconds) return {};
  if (!trials.best)
    LT_RETURN_IF_ERROR(
        try_some(std::span(chosen).first(std::min(chosen.size(), kSplit.second_trials)), 1));
  int64_t most = 1;
  for (const Candidate& candidate : candidates) most = std::max(most, candidate.labels.parts);
  return trials.best ? Status() : try_some(even_ones(most), kSplit.trial_share);
}

// Attention in blocks of queries, where nobody has said how many: whole, and in the parts that are
// best then.
template <class TrySome>
Status try_blocks(const ir::Graph& forward, const OptimizeOptions& options, const TrySome& try_some,
                  const Trials& trials) {
  if (options.query_blocks > 1 || trials.is_within(options.most_seconds)) return {};
  double seconds = kAnyTime;
  if (trials.best) {
    if (trials.seconds() < trials.best->plan.claims.once_seconds * (1 + kSplit.worth_blocks))
      return {};
    seconds = trials.seconds() * (1 - kSplit.estimate_error);
  }
  LT_ASSIGN(const std::optional<int64_t> blocks, blocks_worth_a_plan(forward, options, seconds));
  if (!blocks) return {};
  OptimizeOptions in_blocks = options;
  in_blocks.query_blocks = *blocks;
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, in_blocks));
  LT_ASSIGN(const std::vector<Candidate> candidates,
            label_candidates(step, in_blocks, {}, seconds));
  std::vector<Candidate> chosen = chosen_of(candidates, kSplit.block_trials);
  chosen.insert(chosen.begin(), Candidate{});
  for (Candidate& candidate : chosen) candidate.query_blocks = *blocks;
  return try_some(chosen, kSplit.trial_share);
}

// Cuts beside the labels and blocks that are best, each kept where it makes the plan faster; where
// nothing fits yet, beside a number of parts of the largest class.
template <class TrySome>
Status try_more_cuts(const ir::Graph& forward, const OptimizeOptions& options,
                     const TrySome& try_some, const Trials& trials) {
  const auto is_good = [&] {
    if (trials.is_within(options.most_seconds)) return true;
    return trials.best &&
           trials.seconds() < trials.best->plan.claims.once_seconds * (1 + kSplit.worth_blocks);
  };
  if (is_good()) return {};
  OptimizeOptions in_blocks = options;
  if (trials.best) in_blocks.query_blocks = trials.best->query_blocks;
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, in_blocks));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, classes_to_cut(step));
  const size_t most = std::min(kSplit.cut_trials, kSplit.cut_trial_ops / (1 + step.op_count()));
  for (const fission::CutRule& rule : more_cuts(step, classes, most)) {
    if (is_good()) break;
    Candidate candidate;
    if (trials.best) {
      candidate = trials.of_best;
      candidate.starts.clear();  // of other ops
    } else {
      candidate.labels.parts = std::min(kSplit.parts_beside_cuts, classes.front().least_extent);
    }
    candidate.seconds = 0, candidate.fits = true;  // nothing is estimated of it
    candidate.cuts.push_back(rule);
    LT_RETURN_IF_ERROR(try_some(std::span(&candidate, 1), kSplit.trial_share));
  }
  return {};
}

// The best of all trials, planned with all of the work, and which it is.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> parts_alone(const ir::Graph& forward, const OptimizeOptions& options,
                              Clock::time_point start) {
  Trials trials;
  const auto try_some = [&](std::span<const Candidate> some, int64_t share) {
    return try_all(forward, options, some, share, start, trials);
  };
  LT_RETURN_IF_ERROR(try_some(std::vector<Candidate>(1), kSplit.trial_share));
  const bool is_free = trials.best && trials.seconds() <= trials.best->plan.claims.once_seconds;
  if (!is_free) {
    LT_RETURN_IF_ERROR(try_candidates(forward, options, try_some, trials));
    LT_RETURN_IF_ERROR(try_blocks(forward, options, try_some, trials));
    LT_RETURN_IF_ERROR(try_more_cuts(forward, options, try_some, trials));
  }
  if (options.most_seconds) {
    if (trials.is_within(options.most_seconds)) return std::move(*trials.best);
    return error(ErrorCode::kLimit,
                 fmt::format("--budget: {} bytes were not reached in {:.1f} ms",
                             *options.budget_bytes, 1e3 * *options.most_seconds));
  }
  const OptimizeOptions chosen =
      after(with(options, trials.best ? trials.of_best : trials.last), seconds_since(start));
  Result<Optimized> full = optimize(forward, chosen);
  if (trials.count > 1 && !trials.best && !full && is_about_budget(full.error())) {
    return error(ErrorCode::kLimit, fmt::format("{} (--split {}; {} splits were tried; {})",
                                                full.error().message, fission::print(chosen.split),
                                                trials.count, say(*options.parts_floor)));
  }
  const bool is_better =
      full && (!trials.best || full->plan.claims.predicted_seconds <= trials.seconds());
  if (!is_better && trials.best) full = std::move(*trials.best);
  return full;
}

// Parts by themselves, as schedules to add transfers to; none: they do not keep the budget.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<std::optional<Optimized>> without_transfers(const ir::Graph& forward,
                                                   OptimizeOptions options,
                                                   Clock::time_point start) {
  options.schedule.transfers = false;
  options.find_smallest = options.look_further = false;
  options.progress = {};
  options.dump_folder.clear();
  Result<Optimized> made = parts_alone(forward, options, start);
  if (made) return std::optional<Optimized>(std::move(*made));
  if (!is_about_budget(made.error())) return tl::unexpected(made.error());
  return std::optional<Optimized>();
}

// In another way than the options say.
bool is_cut(const Optimized& made, const OptimizeOptions& options) {
  return !made.split.whole() || made.query_blocks != options.query_blocks ||
         made.cuts != options.cuts;
}

// The whole step with transfers; parts without; then parts with transfers: those that are best
// without, from that schedule, and those whose estimate with transfers is best. Each is planned
// with all of the work, since where transfers lie decides how much of them is hidden. So no lever
// makes the plan slower than it is without that lever. Error: as optimize of the whole step, where
// no candidate fits either.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> parts_and_transfers(const ir::Graph& forward, const OptimizeOptions& options,
                                      Clock::time_point start) {
  OptimizeOptions whole = options;
  whole.split = {};
  Result<Optimized> best = optimize(forward, whole);
  if (!best && !is_about_budget(best.error())) return best;
  const auto seconds = [&] { return best->plan.claims.predicted_seconds; };
  if (best && (best->cut_short || seconds() <= best->plan.claims.once_seconds)) return best;
  LT_ASSIGN(auto parts, without_transfers(forward, after(options, seconds_since(start)), start));
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, whole));
  LT_ASSIGN(const std::vector<Candidate> candidates, label_candidates(step, whole));
  std::vector<Candidate> chosen = chosen_of(candidates, kSplit.moving_trials);
  if (parts && is_cut(*parts, options))
    chosen.insert(chosen.begin(),
                  {.labels = parts->split,
                   .query_blocks = parts->query_blocks,
                   .cuts = {parts->cuts.begin() + std::ssize(options.cuts), parts->cuts.end()},
                   .fits = true,
                   .starts = {runs_of(parts->plan)}});
  for (const Candidate& candidate : chosen) {
    if (!candidate.can_fit() || (best && candidate.least_seconds() >= seconds())) continue;
    Result<Optimized> made = optimize(forward, after(with(whole, candidate), seconds_since(start)));
    if (!made && !is_about_budget(made.error())) return made;
    if (made && (!best || made->plan.claims.predicted_seconds < seconds())) best = std::move(made);
  }
  if (parts && (!best || parts->plan.claims.predicted_seconds < seconds()))
    best = std::move(*parts);
  return best;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  OptimizeOptions whole = options;
  whole.split = {};
  if (!options.budget_bytes) return optimize(forward, whole);
  OptimizeOptions knowing = options;
  if (!knowing.parts_floor) {
    LT_ASSIGN(knowing.parts_floor, floor_in_any_parts(forward, options));
  }
  LT_RETURN_IF_ERROR(check_parts_floor(knowing));
  const bool may_move = options.schedule.transfers && !options.slow_tiers.empty();
  Result<Optimized> made = may_move ? parts_and_transfers(forward, knowing, start)
                                    : parts_alone(forward, knowing, start);
  if (may_move && !made && is_about_budget(made.error()))
    made = parts_alone(forward, knowing, start);
  if (made) made->planning_seconds = seconds_since(start);
  return made;
}

}  // namespace lowtide::pipeline
