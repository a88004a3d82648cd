// Prefix: the state of every search of this folder. A set S of executed ops, closed under
// predecessors (a down-set), and what it costs, which is a submodular function of it.
//
//   live(S)     bytes that remain after S: held values made in S with a reader outside S, plus kept
//               outputs made in S
//   growth(v)   live(S+v) - live(S)
//   peak(v)     bytes while v runs from S: live(S) + transient(v) - what v reuses in place
//
// live is submodular on closed sets (what S makes is modular; what it has freed, "producer and all
// readers are in S", is supermodular), so growth(v) only falls as S grows; and what v reuses only
// rises (see reuse_bytes). Everything in this folder rests on these two facts. run() and undo()
// cost the degree of the op; a prefix can be copied.
//
// Tests: order_random_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "order/order_graph.h"

namespace lowtide::order {

class Prefix {
 public:
  // Borrows `graph`, which must outlive it.
  explicit Prefix(const OrderGraph& graph);

  const OrderGraph& graph() const { return *graph_; }
  int64_t live_bytes() const { return live_bytes_; }
  // Of the op with its pending late trees, which run() runs before it.
  int64_t growth(OpId op) const { return pending_bytes_[op] + graph_->made_bytes[op] - frees_[op]; }
  int64_t peak(OpId op) const;
  int64_t frees(OpId op) const { return frees_[op]; }
  // Ready ops in no meaningful order, late ones excluded; invalidated by run() and undo().
  std::span<const OpId> ready() const { return ready_; }
  std::span<const OpId> sequence() const { return sequence_; }
  bool complete() const { return sequence_.size() == graph_->size(); }
  bool is_ready(OpId op) const { return missing_[op] == 0 && !done(op); }
  bool done(OpId op) const { return (words_[op.index() >> 6] >> (op.index() & 63)) & 1; }
  // Predecessors that have not run, late ones excluded.
  uint32_t missing(OpId op) const { return missing_[op]; }
  // The executed set as a bit set, and a hash of it that does not depend on the order.
  std::span<const uint64_t> words() const { return words_; }
  uint64_t hash() const { return hash_; }

  // Runs a ready op, after its pending late trees.
  void run(OpId op);
  // Takes back the last run (of one op), or all runs after the first `length`.
  void undo();
  void undo_to(size_t length);

 private:
  void run_alone(OpId op);
  void add_ready(OpId op);
  void remove_ready(OpId op);
  void flip(OpId op);

  const OrderGraph* graph_;
  IdVector<OpId, uint32_t> missing_;       // predecessors not yet run that are not late
  IdVector<OpId, int64_t> pending_bytes_;  // left by late trees it needs that have not run
  IdVector<HeldId, uint32_t> unread_;      // readers not yet run
  IdVector<HeldId, uint32_t> unread_xor_;  // exclusive-or of their indices: names the last one
  IdVector<OpId, int64_t> frees_;          // bytes of inputs whose only unread reader is the op
  IdVector<OpId, uint32_t> ready_at_;      // position in ready_
  std::vector<OpId> ready_;
  std::vector<OpId> sequence_;
  std::vector<uint64_t> words_;
  uint64_t hash_ = 0;
  int64_t live_bytes_ = 0;
};

// The bytes while each op of `sequence` runs (a permutation that respects all arcs), and the
// largest of them; where that is `enough_bytes` or more, a number from there up to it, found
// without a look at the rest.
std::vector<int64_t> step_peaks(const OrderGraph& graph, std::span<const OpId> sequence);
int64_t peak_of(const OrderGraph& graph, std::span<const OpId> sequence,
                int64_t enough_bytes = std::numeric_limits<int64_t>::max());

}  // namespace lowtide::order
