// The cut bound, our own: what every order must pay when a certain op runs, as a minimum cut.
//
// When op v runs, the executed set S holds all of v's ancestors and neither v nor any descendant.
// So
//
//     peak >= transient(v) - most v can ever reuse + min { live(S) : such S }
//
// and the minimum is a minimum s-t cut, because live(S) is a sum of terms "producer in S and some
// reader outside S":
//
//     source = ancestors of v             producer --bytes--> value --unlimited--> each reader
//     sink   = v and its descendants      op --unlimited--> predecessor (S is closed)
//
// Ops that are neither ancestor nor descendant are the only nodes; everything else is folded into
// source, sink or a constant. The bound of a part is the maximum over v. Cuts are made lazily: with
// ops sorted by the bytes present while they run in the best known order, an op whose bytes there
// are at most the bound so far cannot raise it (the state in which it runs there is one of its sets
// S), so the walk stops; a handful of cuts is usual on training graphs. (MODeL bounds the peak by
// the largest op alone, which is 3 to 50 times too low there.)
//
// Tests: order_random_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/work.h"
#include "order/order_graph.h"

namespace lowtide::order {

struct OpCut {
  OpId op;
  std::vector<OpId> prefix;  // ascending; the smallest set that attains the minimum
  int64_t bytes = 0;         // the bound that follows from it
};

// The minimum for one op.
OpCut cut_of(const OrderGraph& graph, OpId op, WorkBudget& work);

// The best cut over all ops, found in as many steps as the caller likes.
class CutBound {
 public:
  // Borrows `graph`.
  explicit CutBound(const OrderGraph& graph) : graph_(graph), cut_made_(graph.size(), 0) {}

  // Makes cuts until no op can raise the bound, judged by `best_known` (any valid order; better
  // ones need fewer cuts), or until the work is spent. What was found so far is a valid bound at
  // any time; a later call goes on from there.
  void improve(std::span<const OpId> best_known, WorkBudget& work);

  bool finished() const { return finished_; }
  // Nothing before the first cut.
  const std::optional<OpCut>& best() const { return best_; }

 private:
  const OrderGraph& graph_;
  IdVector<OpId, char> cut_made_;
  std::optional<OpCut> best_;
  bool finished_ = false;
};

// The largest op with its inputs, outputs and workspace, less the most it can reuse: the bound when
// cuts are switched off.
int64_t largest_op_bytes(const OrderGraph& graph);

}  // namespace lowtide::order
