// List scheduling: orders made by one greedy pass over the ready ops. Each is cheap, none proves
// anything; the portfolio keeps the best.
//
// Tests: order_random_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "base/work.h"
#include "order/order_graph.h"
#include "order/safe_moves.h"

namespace lowtide::order {

// 0..n-1, the order that came in.
std::vector<OpId> given_order(const OrderGraph& graph);

// "Least peak memory first" (as documented for PyTorch Inductor): the ready op with the least
// resulting peak so far, then the least growth, then the given order. Empty if the work was spent
// before the end, as in all that take a WorkBudget.
std::vector<OpId> least_peak_first(const OrderGraph& graph, WorkBudget& work);

// The list rule of XLA: the ready op with the most (bytes freed - bytes made), then the most users,
// then the given order.
std::vector<OpId> most_freed_first(const OrderGraph& graph, WorkBudget& work);

// Depth-first post-orders from the sinks: an op's predecessors are placed before it, one whole
// branch after another.
enum class BranchRule {
  kGiven,   // branches in the given order
  kFanOut,  // the branch whose top has most readers first
  kBytes,   // the branch that leaves most bytes first
};
std::vector<OpId> post_order(const OrderGraph& graph, BranchRule rule);

// The closure greedy: make all safe moves, then run the ready op of least growth that fits the
// target; ties as named.
// (Most transient first: what is only present while an op runs hurts less while little else is
// live.)
enum class TieBreak {
  kGiven,
  kLatest,
  kLeastTransient,
  kMostTransient,
  kMostFreed,
  kMostUnlocked,
  kRandom
};
inline constexpr TieBreak kFixedTieBreaks[] = {TieBreak::kGiven,          TieBreak::kLatest,
                                               TieBreak::kLeastTransient, TieBreak::kMostTransient,
                                               TieBreak::kMostFreed,      TieBreak::kMostUnlocked};

struct ClosureGreedy {
  TieBreak tie_break = TieBreak::kGiven;
  // Peaks up to this cost nothing (a lower bound, or 0 to follow the peak so far).
  int64_t target_bytes = 0;
  // Compare the growth after the safe moves that follow, not that of the op alone.
  bool look_ahead = false;
};
std::vector<OpId> closure_greedy(const OrderGraph& graph, const ClosureGreedy& rule,
                                 const SafeMoveOptions& safe, Rng rng, WorkBudget& work);

}  // namespace lowtide::order
