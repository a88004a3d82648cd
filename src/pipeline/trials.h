// Trials: what candidates for a split (label_search.h) come to, each planned within the budget by a
// short search, and the best of them.
//
// A trial does without what only a plan that somebody gets is worth: the bound from several
// moments, a look at other budgets, most of the packer's work. Candidates are tried two at a time
// whatever the number of threads is; what is known of the best decides between the pairs which are
// tried at all. So the outcome does not depend on threads.
//
// Tests: tests/split_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "plan/plan.h"
#include "plan/progress.h"

namespace lowtide::pipeline {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct TrialTuning {
  size_t at_once = 2;  // whatever the threads: what the next ones learn of depends on it
  int64_t least_units = 200'000'000;  // with less BERT's candidates within a fifth all missed
  int schedules_packed = 3;
  int64_t pack_share = 4;        // of the packer's work
  int64_t order_share = 8;       // of the work for the order of each op once
  double estimate_error = 0.01;  // of seconds; candidates were off by less ("In parts")
  double loose = 0.02;           // of seconds, above the bound
  double time_share = 0.35;      // of what a limit of time leaves: the most that trials at once get
};
inline constexpr TrialTuning kTrials;

// The plan's schedule as names of ops, for the search that comes after it. What moves is no part of
// it.
std::vector<std::string> runs_of(const plan::Plan& plan);

// The options without what only a plan that somebody gets is worth; the work of its search is as it
// was.
OptimizeOptions tried_only(OptimizeOptions options);

// The options in the candidate's parts, blocks and cuts, with its rewrites and its schedules to
// start from. Cuts of the options come behind the candidate's: they decide.
OptimizeOptions with(const OptimizeOptions& options, const Candidate& candidate);

// A plan's time as a multiple of what is proven of its parts.
inline double above_bound(const plan::Plan& plan) {
  const double bound = plan.claims.lower_bound_seconds;
  return bound > 0 ? plan.claims.predicted_seconds / bound : 1;
}

// What a trial came to.
struct Tried {
  fission::Labels labels;
  double seconds = kAnyTime;  // the budget was missed
  std::vector<std::string> runs = {};
  bool fits() const { return seconds < kAnyTime; }
};

// The trials of one search.
struct Trials {
  plan::ProgressFunction progress = {};  // of these trials, from the calling thread; may be empty
  std::optional<Optimized> best = {};
  Candidate of_best = {};  // whose starts begin with the best plan's schedule
  Candidate last = {};
  size_t count = 0;
  std::vector<Tried> tried = {};        // labels with nothing else
  double to_beat = kAnyTime;            // what plans of another kind take: no slower one is of use
  std::vector<Candidate> numbers = {};  // by bound (numbers_by_bound.h), where parts wait

  const Tried* found(const fission::Labels& labels) const {
    const auto same = [&](const Tried& one) { return one.labels == labels; };
    const auto known = std::find_if(tried.begin(), tried.end(), same);
    return known == tried.end() ? nullptr : &*known;
  }
  double seconds() const { return best->plan.claims.predicted_seconds; }
  double to_be_beaten() const { return best ? std::min(seconds(), to_beat) : to_beat; }
  bool is_free() const { return best && seconds() <= best->plan.claims.once_seconds; }
  // Of the parts that it is in.
  bool is_optimal() const { return best && seconds() <= best->plan.claims.lower_bound_seconds; }
  bool is_within(std::optional<double> seconds_at_most) const {
    return best && seconds_at_most && seconds() <= *seconds_at_most;
  }
  // Whether it is slower than each op once, of the step in one part.
  bool is_slower_than_once(double share) const {
    const double whole =
        best->whole_seconds > 0 ? best->whole_seconds : best->plan.claims.once_seconds;
    return seconds() > whole * (1 + share);
  }
  bool is_loose() const {
    return best && best->plan.claims.lower_bound_seconds < seconds() * (1 - kTrials.loose);
  }
  // What another plan may take, by its bound: above it by that share of what the best is above its
  // own.
  double expected(double bound_seconds, double share) const {
    return best ? bound_seconds * (1 + share * (above_bound(best->plan) - 1)) : bound_seconds;
  }
};

// Whether the error says that there is no such step: labels and cuts may name ops that a rewrite
// has taken away, and cuts may not go together, or not within labels. Such a proposal is passed
// over.
inline bool is_no_such_step(const Candidate& candidate, const Error& error) {
  const bool is_proposal = !candidate.rewrites.empty() || !candidate.cuts.empty();
  return is_proposal && error.code == ErrorCode::kInput;
}

// Tries candidates in their order, each with 1 / `share` of the work of `options`, but those that
// are no faster by their estimates. `time` is that of the whole search, whose limit
// ends trials in their middle; a part of what it leaves is for those that come then. It ends where
// a trial is within `most_seconds` of the options. Error: what has nothing to do with the budget.
Status try_all(const ir::Graph& forward, const OptimizeOptions& options,
               std::span<const Candidate> chosen, int64_t share, PlanningTime& time,
               Trials& trials);

}  // namespace lowtide::pipeline
