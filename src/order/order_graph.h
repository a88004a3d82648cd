// OrderGraph: one part of a ScheduleProblem as index lists (compressed adjacency lists), turned
// around for search.
//
// The problem lists values; a search asks what an op reads, makes, waits for and unlocks, many
// million times. So the part is flattened into index lists once. Bytes are sorted by what they do
// over time:
//   held       a value with readers that is no output: appears with its producer, goes with its
//              last reader
//   kept       outputs of the step: appear and stay, whatever is done
//   transient  everything present only while the op runs: all its outputs plus its workspace
// Values of size 0 hold nothing; only the arc producer -> reader is left of them. Ops are numbered
// within the part.
//
// Tests: order_random_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/lists.h"
#include "plan/problem_index.h"
#include "plan/schedule_problem.h"

namespace lowtide::order {

using OpId = plan::SchedOpId;  // within an OrderGraph: the op's index in the part
struct HeldTag;
using HeldId = Id<HeldTag>;

// An in-place pair that can ever save bytes: `input` is held, and the output has the same size.
struct Reuse {
  HeldId input;
  plan::SchedValueId output;
  bool operator==(const Reuse&) const = default;
};

struct OrderGraph {
  // Op of the part -> op of the problem; ascending, so 0..n-1 is the given order.
  std::vector<OpId> problem_op;
  Lists<OpId, OpId> preds, succs;  // without duplicates
  Lists<OpId, HeldId> reads, makes;
  Lists<HeldId, OpId> readers;
  IdVector<HeldId, int64_t> held_bytes;
  IdVector<HeldId, OpId> producer;
  IdVector<OpId, int64_t> transient_bytes;  // all outputs + workspace
  IdVector<OpId, int64_t> kept_bytes;       // outputs of the step made by the op
  IdVector<OpId, int64_t> made_bytes;       // what remains after the op: held + kept
  Lists<OpId, Reuse> reuses;                // in the order in which they are tried
  IdVector<OpId, char> late;                // runs only when it must (order/late.h)
  Lists<OpId, OpId> late_before;  // late ops that must have run when the op does, in order
  Lists<OpId, OpId> late_users;   // of a late op: the ops that have it in late_before

  size_t size() const { return problem_op.size(); }
};

// One part of a problem: these ops (ascending), the values that they make, their in-place pairs,
// and who of them only waits for whom. All readers of a value with bytes are in the part. `local`
// maps the problem's ops to their index in the part; valid for ops of the part only.
OrderGraph make_order_graph(const plan::ScheduleProblem& problem, const plan::ProblemIndex& index,
                            std::vector<OpId> ops, const IdVector<OpId, OpId>& local);

// The whole problem as one part.
OrderGraph make_order_graph(const plan::ScheduleProblem& problem);

// The bytes that `op` saves in place when exactly the inputs with may_reuse(input) have no other
// reader left: pairs are taken in order, each input and each output once. More inputs never save
// less: adding one changes the taken pairs along one alternating path that starts at it, so their
// number changes by 0 or +1, and all sizes on that path are equal.
template <class MayReuse>
int64_t reuse_bytes(const OrderGraph& graph, OpId op, MayReuse may_reuse) {
  const std::span<const Reuse> pairs = graph.reuses[op];
  if (pairs.empty()) return 0;
  if (pairs.size() == 1) return may_reuse(pairs[0].input) ? graph.held_bytes[pairs[0].input] : 0;
  int64_t saved = 0;
  std::vector<Reuse> taken;
  for (const Reuse& pair : pairs) {
    if (!may_reuse(pair.input)) continue;
    bool free = true;
    for (const Reuse& t : taken) free = free && t.input != pair.input && t.output != pair.output;
    if (!free) continue;
    taken.push_back(pair);
    saved += graph.held_bytes[pair.input];
  }
  return saved;
}

}  // namespace lowtide::order
