#include "pipeline/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/first_plan.h"
#include "pipeline/label_search.h"
#include "pipeline/numbers_by_bound.h"
#include "pipeline/parts_floor.h"
#include "pipeline/prepare.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"

namespace lowtide::pipeline {
namespace {

// As progress is told: what trials are of all that is done.
constexpr double kTrialsPart = 0.5;

tl::unexpected<Error> no_time() {
  return error(ErrorCode::kLimit, "--budget: no time is left for another plan");
}

// With all of the work; where there is no time for that, and some plan to be handed out, none.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> plan_in_time(const ir::Graph& forward, const OptimizeOptions& options,
                               PlanningTime& time) {
  if (time.is_late(options) && time.has_plan()) return no_time();
  return optimize(forward, time.for_plan(options));
}

// Numbers of parts that may come out ahead with all of the work, each as if it had been asked for:
// what a search of a share of it comes to differs by more than the numbers do. Those whose bound
// makes more expected than the best has, and trials that ended far off, are left out; of the first
// few by bound no trial is believed.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status plan_numbers(const ir::Graph& forward, const OptimizeOptions& options, PlanningTime& time,
                    Trials& trials) {
  const double of_trials = near_best(trials);
  const Candidate planned = trials.best ? trials.of_best : trials.last;
  size_t ahead = 0;  // by bound
  for (const Candidate& number : trials.numbers) {
    const Tried* tried = trials.found(number.labels);
    const bool is_sure = ahead++ < kSplit.sure_numbers;
    const bool is_far = !is_sure && tried != nullptr && trials.best && tried->seconds > of_trials;
    if (number.cuts_as(planned) || is_far) continue;
    if (trials.expected(number.seconds, kSplit.gap_share) >= trials.to_be_beaten()) continue;
    if (time.is_late(options)) break;
    Result<Optimized> made = optimize(forward, time.for_plan(with(options, number)));
    if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
    if (!made || (trials.best && made->plan.claims.predicted_seconds >= trials.seconds())) continue;
    trials.best = std::move(*made);
    trials.of_best = number;
  }
  return {};
}

// As a user would ask for it.
std::string flags_of(const Candidate& candidate) {
  std::string flags = "--split " + fission::print(candidate.labels);
  for (const std::string& name : candidate.rewrites) flags += " --rewrite " + name;
  for (const fission::CutRule& cut : candidate.cuts)
    flags += fmt::format(" --cut '{}'", fission::print(cut));
  if (candidate.query_blocks > 0)
    flags += fmt::format(" --query-blocks {}", candidate.query_blocks);
  return flags;
}

// Another plan of what has missed already would take its time, and hardly be better.
tl::unexpected<Error> stopped_before_any(const OptimizeOptions& options, size_t tried) {
  return error(ErrorCode::kLimit,
               fmt::format("--budget: {} bytes ({}): the search was stopped before any schedule "
                           "within it was found ({} {} tried; {})",
                           *options.budget_bytes, format_bytes(*options.budget_bytes), tried,
                           tried == 1 ? "split was" : "splits were", say(*options.parts_floor)));
}

// The best of all trials with all of the work, from its schedule; a number of parts by bound as if
// it had been asked for, and others that are near it.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> plan_best(const ir::Graph& forward, const OptimizeOptions& options,
                            PlanningTime& time, Trials& trials) {
  Candidate candidate = trials.best ? trials.of_best : trials.last;
  const bool is_number =
      std::any_of(trials.numbers.begin(), trials.numbers.end(),
                  [&](const Candidate& number) { return number.cuts_as(candidate); });
  if (is_number) candidate.starts.clear();
  OptimizeOptions chosen = with(options, candidate);
  chosen.progress = plan::part_of(options.progress, kTrialsPart, 1);
  const bool stopped = time.is_late(options);
  if (stopped && trials.best) return std::move(*trials.best);
  if (stopped && trials.count > 0) return stopped_before_any(options, trials.count);
  Result<Optimized> full = plan_in_time(forward, chosen, time);
  if (!full && !is_about_budget(full.error())) return full;
  if (full && (!trials.best || full->plan.claims.predicted_seconds <= trials.seconds()))
    trials.best = std::move(*full);
  LT_RETURN_IF_ERROR(plan_numbers(forward, options, time, trials));
  if (trials.best) return std::move(*trials.best);
  if (trials.count > 1 || stopped) {
    const bool is_proven = *options.budget_bytes < options.parts_floor->bytes;
    return error(is_proven ? ErrorCode::kInfeasible : ErrorCode::kLimit,
                 fmt::format("{} ({}; {} splits were tried; {})", full.error().message,
                             flags_of(candidate), trials.count, say(*options.parts_floor)));
  }
  return full;
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> parts_alone(const ir::Graph& forward, const OptimizeOptions& options,
                              FirstPlan first, PlanningTime& time) {
  Trials trials = std::move(first.trials);
  trials.progress = plan::part_of(options.progress, 0, kTrialsPart);
  LT_RETURN_IF_ERROR(try_labels(forward, options, first.whole, time, trials));
  LT_RETURN_IF_ERROR(try_more_cuts(forward, options, time, trials));
  LT_RETURN_IF_ERROR(try_more_rewrites(forward, options, time, trials));
  if (!options.most_seconds) return plan_best(forward, options, time, trials);
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
                    PlanningTime& time)
      : forward_(forward),
        whole_(options),
        alone_(without_transfers(options)),
        first_(std::move(first)),
        time_(time) {
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
    LT_RETURN_IF_ERROR(find_numbers(moving));
    LT_RETURN_IF_ERROR(try_moving(std::vector<Candidate>(1), in_one_part));
    if (in_one_part.best && stopped()) return std::move(*in_one_part.best);
    if (in_one_part.is_free()) {
      LT_ASSIGN(const bool any, any_parts_are_faster(forward_, time_.before_plan(alone_),
                                                     in_one_part.seconds(), /*with_moves=*/true));
      if (!any) return std::move(*in_one_part.best);
    }
    if (in_one_part.best && is_waiting_) moving.to_beat = in_one_part.seconds();
    LT_RETURN_IF_ERROR(move_in_numbers(parts, moving));
    if (stopped() && time_.has_plan()) return known({&in_one_part, &moving, &parts});
    parts.to_beat = !is_waiting_ ? kAnyTime : moving.to_be_beaten();
    LT_RETURN_IF_ERROR(try_labels(forward_, alone_, first_.whole, time_, parts));
    LT_RETURN_IF_ERROR(move_in_parts(parts, moving));
    if (stopped() && time_.has_plan()) return known({&in_one_part, &moving, &parts});
    const bool parts_first =
        !in_one_part.best || (moving.best && moving.seconds() < in_one_part.seconds());
    for (const bool in_parts : {parts_first, !parts_first}) {
      const Trials& trials = in_parts ? moving : in_one_part;
      const auto progress = in_parts == parts_first ? part(kTrialsPart, 0.8) : part(0.8, 0.95);
      if (is_near(trials)) LT_RETURN_IF_ERROR(plan_moving(trials, is_far(parts, trials), progress));
    }
    LT_RETURN_IF_ERROR(plan_missed(part(0.8, 0.95)));
    if (is_near(parts)) LT_RETURN_IF_ERROR(without_moving(parts));
    const size_t tried = in_one_part.count + moving.count + parts.count;
    if (!best_ && tried > 0 && stopped()) return stopped_before_any(whole_, tried);
    if (!best_ && moving.count > 0) LT_RETURN_IF_ERROR(plan_moving(moving, false, part(0.8, 0.95)));
    if (!best_) return plan_in_time(forward_, whole_, time_);
    return std::move(*best_);
  }

 private:
  double seconds() const { return best_->plan.claims.predicted_seconds; }
  bool stopped() const { return time_.is_late(whole_); }

  // Where there is no time for more: the best of the trials. Error: it is none of them.
  Result<Optimized> known(std::initializer_list<const Trials*> all) {
    for (const Trials* trials : all)
      if (trials->best && (!best_ || trials->seconds() < seconds())) best_ = *trials->best;
    if (!best_) return no_time();
    return std::move(*best_);
  }

  // Worth all of the work: what a trial comes to may be some way off.
  bool is_near(const Trials& trials) const {
    return trials.best && (!best_ || trials.seconds() < seconds() * (1 + kSplit.near));
  }

  // Whether the same parts are known to be so much slower without transfers that a search for them
  // with all of the work would change nothing.
  bool is_far(const Trials& parts, const Trials& trials) const {
    const bool is_known = is_waiting_ && !trials.of_best.has_moves();
    const Tried* alone = is_known ? parts.found(trials.of_best.labels) : nullptr;
    return alone != nullptr && alone->fits() &&
           alone->seconds > trials.seconds() * (1 + kSplit.near);
  }

  // Where parts wait for each other, each lever alone has trials of its own.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_moving(std::span<const Candidate> some, Trials& trials) const {
    OptimizeOptions options = whole_;
    options.schedule.each_alone &= !is_waiting_;
    return try_all(forward_, options, some, kSplit.trial_share, time_, trials);
  }

  Status find_numbers(Trials& moving) {
    LT_ASSIGN(const ir::Graph step, step_to_cut(forward_, whole_));
    LT_ASSIGN(moving.numbers, numbers_by_bound(forward_, step, time_.before_plan(whole_)));
    is_waiting_ = !moving.numbers.empty();
    return {};
  }

  // Where parts wait for each other: numbers of them by their bounds with transfers, from what each
  // comes to without. A search for both at once that starts from nothing comes to much less.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status move_in_numbers(Trials& parts, Trials& moving) const {
    // NOLINTNEXTLINE(misc-no-recursion): likewise
    const auto try_some = [&](std::span<const Candidate> some, int64_t share) -> Status {
      std::vector<Candidate> known(some.begin(), some.end());
      for (Candidate& number : known) number.seconds = 0;  // nothing is known of them alone
      LT_RETURN_IF_ERROR(try_all(forward_, alone_, known, share, time_, parts));
      if (stopped() && (parts.best || moving.to_beat < kAnyTime)) return {};
      for (size_t k = 0; k < known.size(); ++k) {
        known[k].seconds = some[k].seconds;
        const Tried* alone = parts.found(known[k].labels);
        if (alone != nullptr && alone->fits()) known[k].starts.push_back(alone->runs);
      }
      return try_moving(known, moving);
    };
    return try_by_bound(try_some, kSplit.moving_gap_share, moving);
  }

  // The best without transfers, and the best by what is estimated with them.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status move_in_parts(const Trials& parts, Trials& moving) {
    std::vector<Candidate> chosen;
    const bool was_tried =
        parts.best && !parts.of_best.has_moves() && moving.found(parts.of_best.labels) != nullptr;
    if (parts.best && parts.of_best.cuts_anything() && !was_tried) chosen.push_back(parts.of_best);
    // Estimates say little of parts that wait for each other, and their numbers were tried.
    if (moving.best && is_waiting_) return try_moving(chosen, moving);
    LT_ASSIGN(const ir::Graph step, step_to_cut(forward_, whole_));
    const OptimizeOptions rest = time_.before_plan(whole_);
    const double below = std::min(parts.to_be_beaten(), moving.to_be_beaten());
    LT_ASSIGN(const StepMoves moves, step_moves(forward_, step, rest));
    LT_ASSIGN(const std::vector<Candidate> candidates,
              label_candidates(step, rest, {}, below / (1 - kTrials.estimate_error), moves));
    for (const auto& some : {chosen_of(candidates, kSplit.moving_trials), moved_ones(candidates)})
      for (const Candidate& candidate : some) {
        const bool is_known = !chosen.empty() && chosen.front().cuts_as(candidate);
        if (candidate.fits && !is_known) chosen.push_back(candidate);
      }
    LT_RETURN_IF_ERROR(try_moving(chosen, moving));
    if (!whole_.schedule.recompute) LT_RETURN_IF_ERROR(move_for_reruns(step, moving));
    const int64_t alone = best_number(parts);
    const auto is_best = [](const Candidate& candidate) {
      return candidate.fits && !candidate.has_moves() && is_number(candidate.labels);
    };
    const auto best = std::find_if(candidates.begin(), candidates.end(), is_best);
    const int64_t estimated = best != candidates.end() ? best->labels.parts : alone;
    LT_RETURN_IF_ERROR(try_numbers(estimated, std::max(estimated, alone), moving));
    // NOLINTNEXTLINE(misc-no-recursion): likewise
    const auto try_some = [&](std::span<const Candidate> some, int64_t) {
      return try_moving(some, moving);
    };
    if (stopped()) return {};
    return try_even(step, time_.before_plan(whole_), try_some, moving);
  }

  // Where nothing may run again: what would be best if it might, with transfers in place of reruns.
  // Estimates with transfers alone say little, as one that waits for the link is seldom near what a
  // longer search makes of it; what reruns make of labels tells which of them are short of little.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status move_for_reruns(const ir::Graph& step, Trials& moving) const {
    OptimizeOptions running = time_.before_plan(alone_);
    running.schedule.recompute = true;
    LT_ASSIGN(const StepMoves moves, step_moves(forward_, step, running));
    LT_ASSIGN(const std::vector<Candidate> candidates,
              label_candidates(step, running, {}, kAnyTime, moves));
    std::vector<Candidate> some = chosen_of(candidates, kSplit.moving_trials);
    for (Candidate& candidate : moved_ones(candidates)) some.push_back(std::move(candidate));
    std::erase_if(some, [](const Candidate& candidate) { return !candidate.fits; });
    for (Candidate& candidate : some) candidate.starts.clear();  // with reruns
    if (stopped()) return {};
    LT_ASSIGN(some, by_bound(forward_, time_.before_plan(whole_), std::move(some), moving));
    return try_moving(some, moving);
  }

  static bool is_number(const fission::Labels& labels) {
    return labels.nests.empty() && !labels.whole();
  }

  // Of even parts by what they come to without transfers; 1: none fit.
  static int64_t best_number(const Trials& parts) {
    const Tried* best = nullptr;
    for (const Tried& tried : parts.tried)
      if (tried.fits() && is_number(tried.labels) && (!best || tried.seconds < best->seconds))
        best = &tried;
    return best != nullptr ? best->labels.parts : 1;
  }

  // Fewer parts run faster, but more bytes move, and from some number on the link cannot hide them.
  // That number is looked for by bisection: first below the best by estimates, then between it and
  // the best without transfers, as estimates are of short searches. Last come the numbers next to
  // the best, none above the best without transfers, until neither is faster.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status try_numbers(int64_t best, int64_t alone, Trials& moving) {
    const auto seconds_in = [&](int64_t parts) {
      const Tried* tried = moving.found({.parts = parts});
      return tried != nullptr ? tried->seconds : kAnyTime;
    };
    // NOLINTNEXTLINE(misc-no-recursion): likewise
    const auto try_number = [&](int64_t parts) -> Status {
      const Candidate number{.labels = {.parts = parts}, .fits = true};
      if (moving.found(number.labels) != nullptr) return {};
      return try_moving(std::span(&number, 1), moving);
    };
    int64_t below = 1, above = alone + 1;
    if (best > 1) LT_RETURN_IF_ERROR(try_number(best));
    while (best - below > 1) {
      const int64_t between = below + (best - below) / 2;
      LT_RETURN_IF_ERROR(try_number(between));
      (seconds_in(between) < seconds_in(best) ? best : below) = between;
    }
    while (above - best > 1) {
      const int64_t between = best + (above - best) / 2;
      LT_RETURN_IF_ERROR(try_number(between));
      (seconds_in(between) < seconds_in(best) ? best : above) = between;
    }
    for (int64_t last = 0; last != best;) {
      last = best;
      for (const int64_t beside : {last - 1, last + 1}) {
        if (beside < 2 || beside > alone) continue;
        LT_RETURN_IF_ERROR(try_number(beside));
        if (seconds_in(beside) < seconds_in(best)) best = beside;
      }
    }
    if (best > 2 && seconds_in(best - 1) == kAnyTime) missed_ = {best - 1, seconds_in(best)};
    return {};
  }

  // Of even parts that come near to the best, one less whose trial missed the budget is planned
  // with all of the work, too: addresses are found then that a trial does not find.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status plan_missed(const plan::ProgressFunction& progress) {
    const bool is_near = best_ && missed_.next_seconds < seconds() * (1 + kSplit.near);
    if (missed_.parts == 0 || !is_near || stopped()) return {};
    const Candidate fewer{.labels = {.parts = missed_.parts}, .fits = true};
    OptimizeOptions options = with(whole_, fewer);
    options.progress = progress;
    return take(plan_in_time(forward_, options, time_));
  }

  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status without_moving(Trials& parts) {
    LT_RETURN_IF_ERROR(try_more_cuts(forward_, alone_, time_, parts));
    LT_RETURN_IF_ERROR(try_more_rewrites(forward_, alone_, time_, parts));
    const bool is_open = !best_ || parts.best->plan.claims.lower_bound_seconds < seconds();
    return is_open ? take(plan_best(forward_, alone_, time_, parts)) : Status();
  }

  // The best of the trials, or the last of them, with all of the work; where there is no time for
  // that, as it is.
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  Status plan_moving(const Trials& trials, bool knows_alone,
                     const plan::ProgressFunction& progress) {
    if (trials.best && stopped()) return take(Optimized(*trials.best));
    const Candidate& candidate = trials.best ? trials.of_best : trials.last;
    OptimizeOptions options = with(whole_, candidate);
    options.schedule.each_alone &= !knows_alone;
    options.progress = progress;
    LT_RETURN_IF_ERROR(take(plan_in_time(forward_, options, time_)));
    return trials.best ? take(Optimized(*trials.best)) : Status();
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
  PlanningTime& time_;
  bool is_waiting_ = false;  // parts do, for each other
  // Even parts whose trial missed the budget, if any, and what one more takes.
  struct Missed {
    int64_t parts = 0;
    double next_seconds = kAnyTime;
  };
  Missed missed_;
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

// Of a plan that has passed the gate: with one more claim it passes once more.
Status claim_floor(const plan::PartsFloor& floor, const ir::Graph& forward,
                   const OptimizeOptions& options, Optimized& made) {
  made.plan.claims.parts_floor = floor;
  return pass_gate(made.plan, {forward, forward, {}, options});
}

// Whether a plan that was there before the search is better than what that has come to, where it
// ended early, say; and fast enough.
bool is_better(const Optimized& rough, const Result<Optimized>& made,
               std::optional<double> most_seconds) {
  const double seconds = rough.plan.claims.predicted_seconds;
  if (most_seconds && seconds > *most_seconds) return false;
  return made ? seconds < made->plan.claims.predicted_seconds : is_about_budget(made.error());
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  PlanningTime time;
  OptimizeOptions whole = options;
  whole.split = {};
  if (!options.budget_bytes) return optimize(forward, whole);
  OptimizeOptions knowing = options;
  knowing.progress = as_one(options.progress);
  const bool may_move = options.schedule.transfers && !options.slow_tiers.empty();
  OptimizeOptions alone = may_move ? without_transfers(knowing) : knowing;
  alone.progress = knowing.progress;
  // Before the floor, which takes longer to find and which that plan is above.
  LT_ASSIGN(FirstPlan first, first_plan(forward, alone, time));
  if (!knowing.parts_floor) {
    LT_ASSIGN(knowing.parts_floor, floor_in_any_parts(forward, options));
  }
  LT_RETURN_IF_ERROR(check_parts_floor(knowing));
  std::optional<Optimized> rough = std::exchange(first.rough, std::nullopt);
  for (std::optional<Optimized>* known : {&first.trials.best, &rough})
    if (*known && !knowing.parts_floor->op.empty())
      LT_RETURN_IF_ERROR(claim_floor(*knowing.parts_floor, forward, options, **known));
  Result<Optimized> made = may_move
                               ? PartsAndTransfers(forward, knowing, std::move(first), time).run()
                               : parts_alone(forward, knowing, std::move(first), time);
  if (may_move && !made && is_about_budget(made.error()) && !time.is_late(options))
    made = parts_alone(forward, knowing, {}, time);
  if (rough && is_better(*rough, made, options.most_seconds)) made = *std::move(rough);
  if (made) {
    made->planning_seconds = time.seconds();
    made->cut_short |=
        time.was_late() || options.schedule.remat.limits.stop_after(made->planning_seconds);
  }
  return made;
}

}  // namespace lowtide::pipeline
