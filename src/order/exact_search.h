// Exact search, depth first with memoisation: is there an order within a budget? The states are
// prefixes, and three facts keep them few.
//
//  - After every choice all safe moves are made (order/safe_moves.h); only what is left is a real
//    choice.
//  - What can follow depends on the set of executed ops alone, so a set that failed once need not
//    be seen again. The sets are stored whole, not as hashes: a refutation must not rest on a
//    collision not happening. The memory is capped.
//  - A failed search names the next budget at which anything could differ: the lowest peak that it
//    ever refused. With any budget below that it would have made the same moves, so that number is
//    a proven lower bound, often far above B + 1 (as in iterative deepening, Korf 1985).
//
// The answer is three-valued. A search that ran out of work or memory proves nothing. Cross-checked
// against a subset DP on tens of thousands of small problems (order_random_test).
//
// Tests: order_random_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/work.h"
#include "order/order_graph.h"
#include "order/safe_moves.h"

namespace lowtide::order {

enum class Verdict { kFound, kImpossible, kUnknown };

struct BudgetAnswer {
  Verdict verdict = Verdict::kUnknown;
  std::vector<OpId> sequence;     // if found: peaks are at most the budget
  int64_t next_budget_bytes = 0;  // if impossible: every order's peak is at least this
};

// `memo_bytes` caps the stored sets.
BudgetAnswer search_within(const OrderGraph& graph, int64_t budget_bytes,
                           const SafeMoveOptions& safe, int64_t memo_bytes, WorkBudget& work);

}  // namespace lowtide::order
