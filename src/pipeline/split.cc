#include "pipeline/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/passes.h"
#include "fission/scale.h"
#include "pipeline/first_plan.h"
#include "pipeline/label_search.h"
#include "pipeline/least_time.h"
#include "pipeline/more_cuts.h"
#include "pipeline/parts_floor.h"
#include "pipeline/prepare.h"
#include "pipeline/query_blocks.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SplitTuning {
  int64_t trial_share = 8;           // of the work: the part of it for each candidate
  size_t trials = 4;                 // candidates that get so much
  size_t trials_beside_numbers = 2;  // where estimates say little and numbers were tried
  size_t moving_trials = 2;          // with a link, by what is estimated with it
  // More of them while the best is so far above its bound: searches of tight budgets differ.
  size_t more_trials = 4;
  double near = 0.05;  // of the seconds: a trial so much slower than the best is planned as well
  double worth_blocks = 0.01;  // of each op once: with less extra time, attention stays whole
  size_t block_trials = 2;     // candidates with attention in blocks
  // Cuts beside the labels: so many trials, fewer where a trial is of very many ops.
  size_t cut_trials = 8;
  size_t cut_trial_ops = 16'000;
  int64_t parts_beside_cuts = 4;  // where nothing fits without them
  size_t second_trials = 2;       // where none of them fits: how many get all of the work
  int64_t most_neighbour = 16;    // numbers above have no others tried beside them
  // Where no candidate fits, and first of all where estimates say little: parts, each at most twice
  // the one before; beyond 16 kernels are small.
  int64_t numbers[7] = {2, 3, 4, 6, 8, 12, 16};
};
constexpr SplitTuning kSplit;

// As progress is told: what trials are of all that is done.
constexpr double kTrialsPart = 0.5;

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

// Numbers beside the best one, as long as that gets better: where a budget is tight, estimates take
// one for impossible that a longer search fits. One level only.
template <class TrySome>
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_neighbours(const TrySome& try_some, int64_t most, Trials& trials) {
  while (trials.best && !trials.best->cut_short) {
    const fission::Labels labels = trials.of_best.labels;
    if (!labels.nests.empty() || labels.parts < 2 || labels.parts > kSplit.most_neighbour) break;
    std::vector<Candidate> beside;
    for (const int64_t parts : {labels.parts - 1, labels.parts + 1})
      if (parts > 1 && parts <= most && !trials.has_tried({.parts = parts}))
        beside.push_back({.labels = {.parts = parts}, .fits = true});
    LT_RETURN_IF_ERROR(try_some(beside, kSplit.trial_share));
    if (trials.of_best.labels == labels) break;
  }
  return {};
}

// What the label search finds, best first, until one is good enough. The limit of time in `options`
// counts from here, in try_blocks too.
template <class TrySome>
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_candidates(const ir::Graph& forward, const OptimizeOptions& options,
                      const TrySome& try_some, Trials& trials) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<Candidate> numbers, without_estimates(step));
  LT_RETURN_IF_ERROR(try_some(numbers, kSplit.trial_share));
  if (trials.is_within(options.most_seconds)) return {};
  const bool is_known = !numbers.empty() && trials.best;
  const double below = is_known ? trials.seconds() : kAnyTime;
  const double of_use = options.most_seconds.value_or(kAnyTime) / (1 - kTrials.estimate_error);
  LT_ASSIGN(const std::vector<Candidate> candidates,
            label_candidates(step, options, {}, std::min(below, of_use)));
  const std::vector<Candidate> chosen =
      chosen_of(candidates, is_known ? kSplit.trials_beside_numbers : kSplit.trials);
  LT_RETURN_IF_ERROR(try_some(chosen, kSplit.trial_share));
  if (trials.is_loose() && !is_known)
    LT_RETURN_IF_ERROR(try_some(more_than(chosen, candidates), kSplit.trial_share));
  if (options.most_seconds) return {};
  int64_t most = 1;
  for (const Candidate& candidate : candidates) most = std::max(most, candidate.labels.parts);
  if (trials.best) return try_neighbours(try_some, most, trials);
  LT_RETURN_IF_ERROR(
      try_some(std::span(chosen).first(std::min(chosen.size(), kSplit.second_trials)), 1));
  return trials.best ? Status() : try_some(even_ones(most), kSplit.trial_share);
}

// Attention in blocks of queries, where nobody has said how many: whole, and in the parts that are
// best then.
template <class TrySome>
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_blocks(const ir::Graph& forward, const OptimizeOptions& options, const TrySome& try_some,
                  const Trials& trials) {
  if (options.query_blocks > 1 || trials.is_within(options.most_seconds)) return {};
  double seconds = kAnyTime;
  if (trials.best) {
    if (trials.seconds() < trials.best->plan.claims.once_seconds * (1 + kSplit.worth_blocks))
      return {};
    seconds = trials.seconds() * (1 - kTrials.estimate_error);
  }
  seconds = std::min(seconds, options.most_seconds.value_or(kAnyTime));
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

// The step that cuts come to lie in: that of the best trial, or of one in parts.
Result<ir::Graph> step_of(const ir::Graph& forward, OptimizeOptions options, const Trials& trials) {
  if (!trials.best || !trials.of_best.labels.whole()) return step_to_cut(forward, options);
  options.split = {};
  std::vector<RewriteWorth> worth;
  std::vector<Stage> stages;
  StageClock stage(stages);
  return step_in_one_part(forward, options, worth, stage);
}

// Whether a bound leaves room for a plan of the candidate that is of use. One whose bound is the
// same to the last bit as that of what it comes on top of changes nothing.
bool may_be_of_use(const ir::Graph& forward, const OptimizeOptions& options,
                   const Candidate& candidate, const Candidate& beside, const Trials& trials) {
  const auto least = least_seconds(forward, with(options, candidate));
  if (!least) return true;  // the trial says what is wrong
  const double best = trials.best ? trials.seconds() : kAnyTime;
  if (!*least || **least >= best || **least > options.most_seconds.value_or(kAnyTime)) return false;
  const auto known = least_seconds(forward, with(options, beside));
  return !known || *known != *least;
}

// Cuts beside the labels and blocks that are best, each kept where it makes the plan faster; where
// nothing fits yet, beside a number of parts of the largest class.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_more_cuts(const ir::Graph& forward, const OptimizeOptions& options,
                     Clock::time_point start, Trials& trials) {
  if (trials.is_free() || options.schedule.remat.limits.stop_after(seconds_since(start))) return {};
  if (options.most_seconds &&
      !(trials.best && trials.seconds() < *options.most_seconds * (1 + kSplit.near)))
    return {};
  const auto is_good = [&] {
    if (trials.is_within(options.most_seconds)) return true;
    return trials.best &&
           trials.seconds() < trials.best->plan.claims.once_seconds * (1 + kSplit.worth_blocks);
  };
  if (is_good()) return {};
  OptimizeOptions in_blocks = options;
  if (trials.best) in_blocks.query_blocks = trials.best->query_blocks;
  LT_ASSIGN(const ir::Graph step, step_of(forward, in_blocks, trials));
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
    const Candidate beside = candidate;
    candidate.cuts.push_back(rule);
    if (!may_be_of_use(forward, options, candidate, beside, trials)) continue;
    LT_RETURN_IF_ERROR(
        try_all(forward, options, std::span(&candidate, 1), kSplit.trial_share, start, trials));
  }
  return {};
}

// Rewrites that do not run by themselves, each kept where it makes the best plan faster.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_more_rewrites(const ir::Graph& forward, const OptimizeOptions& options,
                         Clock::time_point start, Trials& trials) {
  const auto is_done = [&] {
    return !trials.best || trials.is_free() || trials.is_within(options.most_seconds) ||
           options.schedule.remat.limits.stop_after(seconds_since(start));
  };
  if (is_done()) return {};
  if (options.most_seconds && trials.seconds() >= *options.most_seconds * (1 + kSplit.near))
    return {};
  LT_ASSIGN(const std::vector<std::string> names,
            promising_rewrites(forward, with(options, trials.of_best)));
  for (const std::string& name : names) {
    if (is_done()) break;
    Candidate candidate = trials.of_best;
    candidate.starts.clear();                      // of other ops
    candidate.seconds = 0, candidate.fits = true;  // nothing is estimated of it
    candidate.rewrites.push_back(name);
    if (!may_be_of_use(forward, options, candidate, trials.of_best, trials)) continue;
    LT_RETURN_IF_ERROR(
        try_all(forward, options, std::span(&candidate, 1), kSplit.trial_share, start, trials));
  }
  return {};
}

// The whole step, unless it is known to be slower than the first plan, and what labels and blocks
// come to beside it where that takes time.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_labels(const ir::Graph& forward, const OptimizeOptions& options, const Candidate& whole,
                  Clock::time_point start, Trials& trials) {
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  const auto try_some = [&](std::span<const Candidate> some, int64_t share) {
    return try_all(forward, options, some, share, start, trials);
  };
  const auto stopped = [&] {
    return options.schedule.remat.limits.stop_after(seconds_since(start));
  };
  LT_RETURN_IF_ERROR(try_some(std::span(&whole, 1), kSplit.trial_share));
  if ((trials.is_free() && trials.of_best.labels.whole()) || stopped()) return {};
  const auto rest = [&] { return after(options, seconds_since(start)); };
  LT_RETURN_IF_ERROR(try_candidates(forward, rest(), try_some, trials));
  return stopped() ? Status() : try_blocks(forward, rest(), try_some, trials);
}

// The best of all trials with all of the work, from its schedule.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> plan_best(const ir::Graph& forward, const OptimizeOptions& options,
                            Clock::time_point start, Trials& trials) {
  OptimizeOptions chosen =
      after(with(options, trials.best ? trials.of_best : trials.last), seconds_since(start));
  chosen.progress = plan::part_of(options.progress, kTrialsPart, 1);
  const bool stopped = options.schedule.remat.limits.stop_after(seconds_since(start));
  Result<Optimized> full = optimize(forward, chosen);
  if (!full && !is_about_budget(full.error())) return full;
  if (!full && !trials.best && (trials.count > 1 || stopped)) {
    const bool is_proven = *options.budget_bytes < options.parts_floor->bytes;
    return error(
        is_proven ? ErrorCode::kInfeasible : ErrorCode::kLimit,
        fmt::format("{} (--split {}; {} splits were tried; {})", full.error().message,
                    fission::print(chosen.split), trials.count, say(*options.parts_floor)));
  }
  const bool is_better =
      full && (!trials.best || full->plan.claims.predicted_seconds <= trials.seconds());
  if (!is_better && trials.best) full = std::move(*trials.best);
  return full;
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> parts_alone(const ir::Graph& forward, const OptimizeOptions& options,
                              FirstPlan first, Clock::time_point start) {
  Trials trials = std::move(first.trials);
  trials.progress = plan::part_of(options.progress, 0, kTrialsPart);
  LT_RETURN_IF_ERROR(try_labels(forward, options, first.whole, start, trials));
  LT_RETURN_IF_ERROR(try_more_cuts(forward, options, start, trials));
  LT_RETURN_IF_ERROR(try_more_rewrites(forward, options, start, trials));
  if (!options.most_seconds) return plan_best(forward, options, start, trials);
  if (trials.is_within(options.most_seconds)) return std::move(*trials.best);
  return error(ErrorCode::kLimit, fmt::format("--budget: {} bytes were not reached in {:.1f} ms",
                                              *options.budget_bytes, 1e3 * *options.most_seconds));
}

OptimizeOptions without_transfers(OptimizeOptions options) {
  options.schedule.transfers = false;
  options.find_smallest = options.look_further = false;
  options.progress = {};
  options.dump_folder.clear();
  return options;
}

// Parts with transfers, by what they come to without and by what is estimated of them with; the
// whole step; and parts without transfers, where what is proven of them leaves that open. What is
// planned in the end is planned with all of the work, since where transfers lie decides how much of
// them is hidden.
class PartsAndTransfers {
 public:
  PartsAndTransfers(const ir::Graph& forward, const OptimizeOptions& options, FirstPlan first,
                    Clock::time_point start)
      : forward_(forward),
        whole_(options),
        alone_(without_transfers(options)),
        first_(std::move(first)),
        start_(start) {
    whole_.split = {};
  }

  // Error: as optimize of the whole step, where nothing fits.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Result<Optimized> run() {
    const auto part = [&](double from, double to) {
      return plan::part_of(whole_.progress, from, to);
    };
    Trials in_one_part{.progress = part(0, 0.05)}, moving{.progress = part(0.4, kTrialsPart)};
    Trials parts = std::move(first_.trials);
    parts.progress = part(0.05, 0.4);
    LT_RETURN_IF_ERROR(try_moving(std::vector<Candidate>(1), in_one_part));
    if (in_one_part.best && (in_one_part.best->cut_short || in_one_part.is_free()))
      return std::move(*in_one_part.best);
    LT_RETURN_IF_ERROR(try_labels(forward_, alone_, first_.whole, start_, parts));
    LT_RETURN_IF_ERROR(move_in_parts(parts, moving));
    const bool parts_first =
        !in_one_part.best || (moving.best && moving.seconds() < in_one_part.seconds());
    for (const bool in_parts : {parts_first, !parts_first}) {
      const Trials& trials = in_parts ? moving : in_one_part;
      const auto progress = in_parts == parts_first ? part(kTrialsPart, 0.8) : part(0.8, 0.95);
      if (is_near(trials)) LT_RETURN_IF_ERROR(plan_moving(trials.of_best, progress));
    }
    if (is_near(parts)) LT_RETURN_IF_ERROR(without_moving(parts));
    if (!best_ && moving.count > 0) LT_RETURN_IF_ERROR(plan_moving(moving.last, part(0.8, 0.95)));
    if (!best_) return optimize(forward_, after(whole_, seconds_since(start_)));
    return std::move(*best_);
  }

 private:
  double seconds() const { return best_->plan.claims.predicted_seconds; }

  // Worth all of the work: what a trial comes to may be some way off.
  bool is_near(const Trials& trials) const {
    return trials.best && (!best_ || trials.seconds() < seconds() * (1 + kSplit.near));
  }

  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_moving(std::span<const Candidate> some, Trials& trials) const {
    return try_all(forward_, whole_, some, kSplit.trial_share, start_, trials);
  }

  // The best without transfers, and the best by what is estimated with them.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status move_in_parts(const Trials& parts, Trials& moving) const {
    std::vector<Candidate> chosen;
    if (parts.best && parts.of_best.cuts_anything()) chosen.push_back(parts.of_best);
    LT_ASSIGN(const ir::Graph step, step_to_cut(forward_, whole_));
    LT_ASSIGN(const std::vector<Candidate> candidates,
              label_candidates(step, after(whole_, seconds_since(start_))));
    for (const Candidate& candidate : chosen_of(candidates, kSplit.moving_trials)) {
      const bool is_known = !chosen.empty() && chosen.front().cuts_as(candidate);
      if (candidate.can_fit() && !is_known) chosen.push_back(candidate);
    }
    LT_RETURN_IF_ERROR(try_moving(chosen, moving));
    return parts.best ? try_numbers(chosen, parts.of_best.labels, moving) : Status();
  }

  // What is estimated with transfers is a bound, so numbers with more of them than there is time to
  // hide look best. The least number that hides them lies between these and the one that is best
  // without transfers: bisection, as long as numbers differ.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_numbers(const std::vector<Candidate>& chosen, const fission::Labels& alone,
                     Trials& moving) const {
    if (!alone.nests.empty()) return {};
    int64_t below = alone.parts, above = alone.parts;
    for (const Candidate& candidate : chosen)
      if (candidate.labels.nests.empty()) below = std::min(below, candidate.labels.parts);
    while (above - below > 1) {
      const Candidate between{.labels = {.parts = below + (above - below) / 2}, .fits = true};
      LT_RETURN_IF_ERROR(try_moving(std::span(&between, 1), moving));
      const bool is_best = moving.best && moving.of_best.labels == between.labels;
      (is_best ? above : below) = between.labels.parts;
    }
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status without_moving(Trials& parts) {
    LT_RETURN_IF_ERROR(try_more_cuts(forward_, alone_, start_, parts));
    LT_RETURN_IF_ERROR(try_more_rewrites(forward_, alone_, start_, parts));
    const bool is_open = !best_ || parts.best->plan.claims.lower_bound_seconds < seconds();
    return is_open ? take(plan_best(forward_, alone_, start_, parts)) : Status();
  }

  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status plan_moving(const Candidate& candidate, const plan::ProgressFunction& progress) {
    OptimizeOptions options = after(with(whole_, candidate), seconds_since(start_));
    options.progress = progress;
    return take(optimize(forward_, options));
  }

  // Error: what has nothing to do with the budget.
  Status take(Result<Optimized> made) {
    if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
    if (made && (!best_ || made->plan.claims.predicted_seconds < seconds()))
      best_ = std::move(*made);
    return {};
  }

  const ir::Graph& forward_;
  OptimizeOptions whole_;
  const OptimizeOptions alone_;
  FirstPlan first_;  // without transfers
  const Clock::time_point start_;
  std::optional<Optimized> best_;
};

// Many searches one after another, told as one: the best so far is not forgotten when the next
// begins, and the share of the work never falls.
plan::ProgressFunction as_one(const plan::ProgressFunction& whole) {
  if (!whole) return {};
  const auto last = std::make_shared<plan::Progress>();  // of all copies of the function
  return [whole, last](plan::Progress progress) {
    const bool is_worse = progress.seconds == 0 || progress.seconds > last->seconds;
    if (last->seconds > 0 && is_worse) {
      progress.seconds = last->seconds;
      progress.peak_bytes = last->peak_bytes;
      progress.lower_bound_seconds = std::min(progress.lower_bound_seconds, last->seconds);
      if (progress.unpacked_seconds >= last->seconds) progress.unpacked_seconds = 0;
    }
    progress.share = std::max(progress.share, last->share);
    *last = progress;
    whole(progress);
  };
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  OptimizeOptions whole = options;
  whole.split = {};
  if (!options.budget_bytes) return optimize(forward, whole);
  OptimizeOptions knowing = options;
  knowing.progress = as_one(options.progress);
  const bool may_move = options.schedule.transfers && !options.slow_tiers.empty();
  OptimizeOptions alone = may_move ? without_transfers(knowing) : knowing;
  alone.progress = knowing.progress;
  // Before the floor, which takes longer to find and which that plan is above.
  LT_ASSIGN(FirstPlan first, first_plan(forward, alone, start));
  if (!knowing.parts_floor) {
    LT_ASSIGN(knowing.parts_floor, floor_in_any_parts(forward, options));
  }
  LT_RETURN_IF_ERROR(check_parts_floor(knowing));
  if (first.trials.best && !knowing.parts_floor->op.empty())
    first.trials.best->plan.claims.parts_floor = knowing.parts_floor;
  Result<Optimized> made = may_move
                               ? PartsAndTransfers(forward, knowing, std::move(first), start).run()
                               : parts_alone(forward, knowing, std::move(first), start);
  if (may_move && !made && is_about_budget(made.error()))
    made = parts_alone(forward, knowing, {}, start);
  if (made) {
    made->planning_seconds = seconds_since(start);
    made->cut_short |= options.schedule.remat.limits.stop_after(made->planning_seconds);
  }
  return made;
}

}  // namespace lowtide::pipeline
