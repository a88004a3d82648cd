// Ordering: which op runs when, each exactly once, so that the peak is least, with a proof; by list
// scheduling, depth-first and beam search, and minimum cuts as the bound.
//
// The question is MODeL's (section 3), without its integer program: live memory is a submodular
// function of the executed set (order/prefix.h), which gives safe moves, a min-cut lower bound and
// a small exact search. The portfolio, per exact part (order/decompose.h): list scheduling -> cut
// bound -> closure greedy -> exact search and beam in turn with growing slices of work, until the
// peak equals the bound or the limit is reached.
//
// Budget and link of the problem are ignored here: an order that runs each op once has no use for
// them. What other planners use of it (Prefix, SafeMoves, cut_of, the heuristics) have headers of
// their own.
//
// Tests: order_random_test.cc, order_options_test.cc, order_data_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "plan/schedule_problem.h"

namespace lowtide::order {

// The units of an op put into a sequence, which is this folder's step: 50 to 100 ns.
inline constexpr int64_t kUnitsPerStep = 16;

struct OrderOptions {
  bool decompose = true;       // split into parts that may be ordered on their own, without loss
  bool list_rules = true;      // least-peak-first and most-freed-first lists
  bool post_orders = true;     // depth-first orders from the sinks
  bool closure_greedy = true;  // safe moves, else least growth; one pass per tie-break
  // Closure greedy with random tie-breaks, if the bound is not met by then.
  int random_restarts = 2;
  bool safe_moves = true;    // commit to single ops that cannot hurt
  bool excursions = true;    // commit to short runs that cannot hurt, like gradient then update
  bool cut_bound = true;     // min-cut lower bound; off: the largest op
  bool exact_search = true;  // search with proof
  bool beam = true;          // improver for wide graphs
  Limits limits{.max_units = 320'000'000};  // of each part
  // The portfolio also ends after this much work without a better order or bound, or after as much
  // as the last one took to find, if that is more.
  int64_t idle_units = 96'000'000;
  uint64_t seed = 1;  // of the random restarts
  int threads = 1;    // parts solved at once; the answer does not depend on it
};

// The best order found, its peak (never above that of the given order 0..n-1), a proven bound,
// and the cut behind it. Status: kOptimal exactly when peak and bound are equal; kLimit when the
// work or time limit ended the search; kFeasible when it stopped because what was left to do is
// switched off. `problem` must pass plan::check.
plan::ScheduleOutcome solve(const plan::ScheduleProblem& problem, const OrderOptions& options = {});

}  // namespace lowtide::order
