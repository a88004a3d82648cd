#include "pipeline/try_splits.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fission/classes.h"
#include "pipeline/freed_cuts.h"
#include "pipeline/least_time.h"
#include "pipeline/more_cuts.h"
#include "pipeline/numbers_by_bound.h"
#include "pipeline/prepare.h"
#include "pipeline/query_blocks.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"

namespace lowtide::pipeline {

std::vector<Candidate> chosen_of(const std::vector<Candidate>& candidates, size_t trials) {
  std::vector<Candidate> chosen;
  bool has_even = false;
  for (const Candidate& candidate : candidates) {
    const bool is_even = candidate.labels.nests.empty();
    if (candidate.has_moves() || candidate.labels.whole() ||
        (chosen.size() >= trials && (has_even || !is_even)))
      continue;
    has_even |= is_even;
    chosen.push_back(candidate);
  }
  return chosen;
}

std::vector<Candidate> moved_ones(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> moved;
  size_t counts[Candidate::kKinds] = {};
  for (const Candidate& candidate : candidates) {
    if (!candidate.fits || !candidate.has_moves()) break;
    if (counts[candidate.kind()]++ < kSplit.block_trials) moved.push_back(candidate);
  }
  return moved;
}

Result<bool> any_parts_are_faster(const ir::Graph& forward, const OptimizeOptions& options,
                                  double whole_seconds, bool with_moves) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  // The whole step is where the search begins, so it is to be found, too.
  const double below = whole_seconds * (1 + kTrials.estimate_error);
  StepMoves moves;
  if (with_moves) {
    LT_ASSIGN(moves, step_moves(forward, step, options));
  }
  LT_ASSIGN(const std::vector<Candidate> candidates,
            label_candidates(step, options, {}, below, moves));
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.fits && (candidate.cuts_anything() || candidate.has_moves()) &&
           candidate.seconds < whole_seconds * (1 - kSplit.worth_parts);
  });
}

namespace {

// The best candidates but those.
std::vector<Candidate> more_than(const std::vector<Candidate>& chosen,
                                 const std::vector<Candidate>& candidates) {
  std::vector<Candidate> more;
  for (const Candidate& candidate : candidates) {
    const bool is_known = std::any_of(chosen.begin(), chosen.end(), [&](const Candidate& other) {
      return other.labels == candidate.labels;
    });
    if (candidate.fits && !candidate.has_moves() && !candidate.labels.whole() && !is_known &&
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

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_by_bound(const TrySome& try_some, double gap_share, Trials& trials) {
  const std::span<const Candidate> numbers = trials.numbers;
  for (size_t next = 0; next < numbers.size(); next += kTrials.at_once) {
    if (trials.expected(numbers[next].seconds, gap_share) >= trials.to_be_beaten()) break;
    LT_RETURN_IF_ERROR(
        try_some(numbers.subspan(next, std::min(kTrials.at_once, numbers.size() - next)),
                 kSplit.trial_share));
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_even(const ir::Graph& step, const OptimizeOptions& options, const TrySome& try_some,
                const Trials& trials) {
  if (!trials.best) return {};
  LT_ASSIGN(const std::vector<Candidate> even, even_below(step, options, trials.to_be_beaten()));
  for (const Candidate& number : even) {
    if (trials.expected(number.seconds, kSplit.gap_share) >= trials.to_be_beaten()) break;
    if (trials.found(number.labels) != nullptr) continue;
    LT_RETURN_IF_ERROR(try_some(std::span(&number, 1), kSplit.trial_share));
  }
  return {};
}

Result<std::vector<Candidate>> by_bound(const ir::Graph& forward, const OptimizeOptions& options,
                                        std::vector<Candidate> candidates, const Trials& trials) {
  std::vector<Candidate> chosen;
  const auto start = Clock::now();
  for (Candidate& candidate : candidates) {
    if (options.schedule.remat.limits.stop_after(seconds_since(start))) break;
    if (!candidate.has_moves() && trials.found(candidate.labels) != nullptr) continue;
    const auto bound = least_seconds(forward, with(options, candidate));
    if (!bound && is_no_such_step(candidate, bound.error())) continue;
    if (!bound) return tl::unexpected(bound.error());
    if (!*bound || trials.expected(**bound, 1) >= trials.to_be_beaten()) continue;
    candidate.seconds = **bound, candidate.fits = true;
    chosen.push_back(std::move(candidate));
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return chosen;
}

namespace {

// Whether numbers of parts that were ranked by bounds are far from what is to be beaten.
bool is_out_of_reach(const Trials& trials) {
  if (trials.numbers.empty() || trials.to_beat == kAnyTime) return false;
  const double least = trials.best ? trials.seconds() : trials.numbers.front().seconds;
  return least > near_best(trials);
}

// Numbers beside the best one, as long as that gets better: where a budget is tight, estimates take
// one for impossible that a longer search fits. One level only, with the best one's moves.
// NOLINTNEXTLINE(misc-no-recursion): optimize comes back here only for a split to be chosen
Status try_neighbours(const TrySome& try_some, int64_t most, Trials& trials) {
  std::set<int64_t> seen;
  while (trials.best && !trials.best->cut_short) {
    const fission::Labels labels = trials.of_best.labels;
    if (!labels.nests.empty() || labels.parts < 2 || labels.parts > kSplit.most_neighbour) break;
    std::vector<Candidate> beside;
    for (const int64_t parts : {labels.parts - 1, labels.parts + 1}) {
      const Candidate next{.labels = {.parts = parts},
                           .query_blocks = trials.of_best.query_blocks,
                           .cuts = trials.of_best.cuts,
                           .rewrites = trials.of_best.rewrites,
                           .fits = true};
      const bool was_tried = !next.has_moves() && trials.found(next.labels) != nullptr;
      if (parts > 1 && parts <= most && !was_tried && seen.insert(parts).second)
        beside.push_back(next);
    }
    LT_RETURN_IF_ERROR(try_some(beside, kSplit.trial_share));
    if (trials.of_best.labels == labels) break;
  }
  return {};
}

// What the label search finds, best first, until one is good enough.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_candidates(const ir::Graph& forward, const OptimizeOptions& all, const TrySome& try_some,
                      PlanningTime& time, Trials& trials) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, all));
  LT_ASSIGN(trials.numbers, numbers_by_bound(forward, step, time.before_plan(all)));
  LT_RETURN_IF_ERROR(try_by_bound(try_some, kSplit.gap_share, trials));
  if (time.is_late(all) || trials.is_within(all.most_seconds) || is_out_of_reach(trials)) return {};
  const OptimizeOptions options = time.before_plan(all);  // of what is left
  const bool is_known = !trials.numbers.empty() && trials.best;
  const double below = is_known ? trials.to_be_beaten() : trials.to_beat;
  const double of_use = options.most_seconds.value_or(kAnyTime) / (1 - kTrials.estimate_error);
  LT_ASSIGN(const StepMoves moves, step_moves(forward, step, options));
  LT_ASSIGN(const std::vector<Candidate> candidates,
            label_candidates(step, options, {}, std::min(below, of_use), moves));
  std::vector<Candidate> chosen =
      chosen_of(candidates, is_known ? kSplit.trials_beside_numbers : kSplit.trials);
  if (is_known) {
    LT_ASSIGN(chosen, by_bound(forward, time.before_plan(all), std::move(chosen), trials));
  }
  LT_RETURN_IF_ERROR(try_some(chosen, kSplit.trial_share));
  std::vector<Candidate> moved = moved_ones(candidates);
  if (is_known) {
    LT_ASSIGN(moved, by_bound(forward, time.before_plan(all), std::move(moved), trials));
  }
  LT_RETURN_IF_ERROR(try_some(moved, kSplit.trial_share));
  if (trials.is_loose() && !is_known)
    LT_RETURN_IF_ERROR(try_some(more_than(chosen, candidates), kSplit.trial_share));
  if (options.most_seconds) return {};
  int64_t most = 1;
  for (const Candidate& candidate : candidates) most = std::max(most, candidate.labels.parts);
  if (trials.best) {
    if (!is_known) LT_RETURN_IF_ERROR(try_even(step, time.before_plan(all), try_some, trials));
    return try_neighbours(try_some, most, trials);
  }
  if (trials.to_beat < kAnyTime) return {};
  LT_RETURN_IF_ERROR(
      try_some(std::span(chosen).first(std::min(chosen.size(), kSplit.second_trials)), 1));
  return trials.best ? Status() : try_some(even_ones(most), kSplit.trial_share);
}

// Attention in blocks of queries, where nobody has said how many: whole, and in the parts that are
// best then.
// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_blocks(const ir::Graph& forward, const OptimizeOptions& options, const TrySome& try_some,
                  const Trials& trials) {
  if (options.query_blocks > 1 || trials.is_within(options.most_seconds)) return {};
  double seconds = trials.to_beat;
  if (trials.best) {
    if (trials.seconds() < trials.best->plan.claims.once_seconds * (1 + kSplit.worth_blocks))
      return {};
    seconds = trials.to_be_beaten() * (1 - kTrials.estimate_error);
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
  if (!*least || **least > options.most_seconds.value_or(kAnyTime)) return false;
  // Where parts wait for each other, bounds alone leave much open, and trials take long.
  if ((trials.numbers.empty() ? **least : trials.expected(**least, kSplit.gap_share)) >= best)
    return false;
  const auto known = least_seconds(forward, with(options, beside));
  return !known || *known != *least;
}

// Cuts of classes, and likewise so many with what frees their axes: within a tight budget of all
// that are large.
Result<std::vector<Candidate>> propose_cuts(const ir::Graph& step,
                                            std::span<const fission::AxisClass> classes,
                                            const OptimizeOptions& options, bool is_tight) {
  const size_t most = std::min(kSplit.cut_trials, kSplit.cut_trial_ops / (1 + step.op_count()));
  std::vector<Candidate> proposals;
  for (fission::CutRule& rule : more_cuts(step, classes, most))
    proposals.push_back({.cuts = {std::move(rule)}});
  const size_t most_freed = proposals.size() + most;
  LT_ASSIGN(const std::vector<FreedClass> freed, freed_classes(step, options, is_tight));
  for (const FreedClass& one : freed)
    for (const bool instead : {true, false})
      for (fission::CutRule& rule : one.cuts(instead))
        if (proposals.size() < most_freed)
          proposals.push_back({.cuts = {std::move(rule)}, .rewrites = {one.rewrite}});
  return proposals;
}

// One in place of all that was said of its ops makes such cuts before it superfluous.
void add_cut(const fission::CutRule& cut, std::vector<fission::CutRule>& cuts) {
  std::erase_if(cuts, [&](const fission::CutRule& other) {
    return cut.instead && other.instead && cut.ops == other.ops && cut.axis == other.axis &&
           cut.whole_class == other.whole_class && cut.least_bytes <= other.least_bytes;
  });
  cuts.push_back(cut);
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// What proposals are tried on: the best so far, or where nothing fits even parts.
Candidate to_cut_further(const Trials& trials, std::span<const fission::AxisClass> classes) {
  Candidate candidate;
  if (trials.best) {
    candidate = trials.of_best;
    candidate.starts.clear();  // of other ops
  } else if (!classes.empty()) {
    candidate.labels.parts = std::min(kSplit.parts_beside_cuts, classes.front().least_extent);
  }
  candidate.seconds = 0, candidate.fits = true;  // nothing is estimated of it
  return candidate;
}

// What freed classes are tried on within a tight budget, too: they reach what no part of the rows
// does.
Candidate alone(const Trials& trials) {
  return {.query_blocks = trials.best ? trials.of_best.query_blocks : 0, .fits = true};
}

bool frees_instead(const Candidate& proposal) {
  return !proposal.rewrites.empty() && proposal.cuts.front().instead;
}

Candidate with_more(Candidate candidate, const Candidate& proposal) {
  add_cut(proposal.cuts.front(), candidate.cuts);
  for (const std::string& name : proposal.rewrites)
    if (!contains(candidate.rewrites, name)) candidate.rewrites.push_back(name);
  return candidate;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_more_cuts(const ir::Graph& forward, const OptimizeOptions& options, PlanningTime& time,
                     Trials& trials) {
  if (trials.is_free() || !options.ideas.more_cuts || time.is_late(options)) return {};
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
  const bool is_tight = !trials.best || trials.is_slower_than_once(kSplit.tight);
  LT_ASSIGN(const std::vector<Candidate> proposals,
            propose_cuts(step, classes, in_blocks, is_tight));
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  const auto try_on = [&](const Candidate& beside, const Candidate& proposal) -> Result<bool> {
    if (is_good() || time.is_late(options)) return false;
    const Candidate candidate = with_more(beside, proposal);
    if (!may_be_of_use(forward, options, candidate, beside, trials)) return false;
    LT_RETURN_IF_ERROR(
        try_all(forward, options, std::span(&candidate, 1), kSplit.trial_share, time, trials));
    return true;
  };
  std::optional<Candidate> missed;
  for (const Candidate& proposal : proposals) {
    const bool is_alone = is_tight && frees_instead(proposal);
    if (is_alone) {
      LT_ASSIGN(const bool was_tried, try_on(alone(trials), proposal));
      if (was_tried && !trials.best && !missed) missed = with_more(alone(trials), proposal);
    }
    const Candidate beside = to_cut_further(trials, classes);
    const bool is_same = is_alone && (!trials.best || beside.cuts_as(alone(trials)));
    if (!is_same) LT_RETURN_IF_ERROR(try_on(beside, proposal));
  }
  if (!trials.best && missed) trials.last = *missed;  // it gets all of the work (plan_best)
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_more_rewrites(const ir::Graph& forward, const OptimizeOptions& options,
                         PlanningTime& time, Trials& trials) {
  const auto is_done = [&] {
    return !trials.best || trials.is_free() || trials.is_within(options.most_seconds) ||
           time.is_late(options);
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
        try_all(forward, options, std::span(&candidate, 1), kSplit.trial_share, time, trials));
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
Status try_labels(const ir::Graph& forward, const OptimizeOptions& options, const Candidate& whole,
                  PlanningTime& time, Trials& trials) {
  // NOLINTNEXTLINE(misc-no-recursion): likewise
  const auto try_some = [&](std::span<const Candidate> some, int64_t share) {
    return try_all(forward, options, some, share, time, trials);
  };
  const auto stopped = [&] { return time.is_late(options); };
  LT_RETURN_IF_ERROR(try_some(std::span(&whole, 1), kSplit.trial_share));
  if (stopped()) return {};
  if (trials.is_free() && trials.of_best.labels.whole()) {
    LT_ASSIGN(const bool any, any_parts_are_faster(forward, time.before_plan(options),
                                                   trials.seconds(), /*with_moves=*/false));
    if (!any) return {};
  }
  LT_RETURN_IF_ERROR(try_candidates(forward, options, try_some, time, trials));
  return stopped() ? Status() : try_blocks(forward, time.before_plan(options), try_some, trials);
}

}  // namespace lowtide::pipeline
