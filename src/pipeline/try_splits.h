// What a step within a budget is tried in: labels, numbers of parts, blocks of queries, cuts beside
// the labels, rewrites. split.h says in which order and why; here each becomes a list of
// candidates, and these trials (trials.h).
//
// Tests: tests/split_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "pipeline/trials.h"

namespace lowtide::pipeline {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SplitTuning {
  int64_t trial_share = 8;           // of the work: the part of it for each candidate
  size_t trials = 4;                 // candidates that get so much
  size_t trials_beside_numbers = 2;  // where estimates say little and numbers were tried
  size_t moving_trials = 2;          // with a link, by what is estimated with it
  // More of them while the best is so far above its bound: searches of tight budgets differ.
  size_t more_trials = 4;
  int64_t most_moved_blocks = 8;  // of queries, that the label search looks at
  double near = 0.05;  // of the seconds: a trial so much slower than the best is planned as well
  // Numbers of parts may be above their bounds by that share of what the best is above its own;
  // with transfers, for which a trial costs more, by all of it.
  double gap_share = 0.5, moving_gap_share = 1;
  size_t sure_numbers = 3;     // of the least bounds: planned whatever their trials came to
  double worth_blocks = 0.01;  // of each op once: with less extra time, attention stays whole
  double worth_parts = 0.002;  // likewise: what parts must win where nothing else is to be won
  size_t block_trials = 2;     // candidates with attention in blocks or rewrites, and with cuts
  // Cuts beside the labels: so many trials, fewer where a trial is of very many ops. Of steps that
  // have more ops, or would have with the parts of a cut, the label search looks at none, either.
  size_t cut_trials = 14;
  size_t cut_trial_ops = 16'000;
  int64_t parts_beside_cuts = 4;  // where nothing fits without them
  // Of each op once: with more extra time, classes that rewrites free are tried alone, too.
  double tight = 0.15;
  size_t second_trials = 2;     // where none of them fits: how many get all of the work
  int64_t most_neighbour = 16;  // numbers above have no others tried beside them
  // Where no candidate fits, and where bounds rank them: each at most twice the one before; beyond
  // 16 kernels are small.
  int64_t numbers[7] = {2, 3, 4, 6, 8, 12, 16};
};
inline constexpr SplitTuning kSplit;

// The best candidates in parts without moves, and the best without levels.
std::vector<Candidate> chosen_of(const std::vector<Candidate>& candidates, size_t trials);

// The best candidates with rewrites or blocks alone, and the best with cuts, as long as they are
// estimated to be faster than all without.
std::vector<Candidate> moved_ones(const std::vector<Candidate>& candidates);

// Whether labels, with moves or without, may make the step faster than that, which is each op once
// in one part: some need no budget to be worth it. Labels alone are estimated by each op once, most
// of them by nothing else.
Result<bool> any_parts_are_faster(const ir::Graph& forward, const OptimizeOptions& options,
                                  double whole_seconds, bool with_moves);

// What is worth a plan beside the best: what trials and bounds say is no more exact than that.
inline double near_best(const Trials& trials) {
  return trials.to_be_beaten() * (1 + kSplit.near);
}

// Tries some candidates, each with 1 / `share` of the work.
using TrySome = std::function<Status(std::span<const Candidate> some, int64_t share)>;

// Numbers of parts by their bounds (trials.numbers), where parts wait for each other: a few at a
// time, as long as one of them may come out ahead of the best (Trials::expected).
Status try_by_bound(const TrySome& try_some, double gap_share, Trials& trials);

// Numbers of even parts beside all that was tried, those whose bounds may come out ahead of the
// best (Trials::expected): estimates take some for slower than they are. Of 2, 3, 4, 6, 8, 12 and
// so on none whose bound says so is left out.
Status try_even(const ir::Graph& step, const OptimizeOptions& options, const TrySome& try_some,
                const Trials& trials);

// Of candidates by estimates that say little: those that their bounds make better than the best,
// the best first.
Result<std::vector<Candidate>> by_bound(const ir::Graph& forward, const OptimizeOptions& options,
                                        std::vector<Candidate> candidates, const Trials& trials);

// The whole step, unless it is known to be slower than the first plan, and what labels and blocks
// come to beside it where that takes time.
Status try_labels(const ir::Graph& forward, const OptimizeOptions& options, const Candidate& whole,
                  PlanningTime& time, Trials& trials);

// Cuts beside the labels and blocks that are best, each kept where it makes the plan faster; where
// nothing fits yet, beside a number of parts of the largest class.
Status try_more_cuts(const ir::Graph& forward, const OptimizeOptions& options, PlanningTime& time,
                     Trials& trials);

// Rewrites that do not run by themselves, each kept where it makes the best plan faster.
Status try_more_rewrites(const ir::Graph& forward, const OptimizeOptions& options,
                         PlanningTime& time, Trials& trials);

}  // namespace lowtide::pipeline
