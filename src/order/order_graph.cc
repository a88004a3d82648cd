#include "order/order_graph.h"

#include <algorithm>
#include <numeric>

#include "order/late.h"

namespace lowtide::order {
namespace {

using plan::InPlacePair;
using plan::ProblemIndex;
using plan::ScheduleProblem;
using plan::SchedValue;
using plan::SchedValueId;

using Arcs = std::vector<std::pair<OpId, OpId>>;

Arcs reversed(const Arcs& arcs) {
  Arcs result;
  result.reserve(arcs.size());
  for (const auto& [from, to] : arcs) result.emplace_back(to, from);
  return result;
}

class GraphBuilder {
 public:
  GraphBuilder(const ScheduleProblem& problem, const ProblemIndex& index, std::vector<OpId> ops,
               const IdVector<OpId, OpId>& local)
      : problem_(problem), index_(index), local_(local), held_of_(problem.values.size()) {
    graph_.problem_op = std::move(ops);
    for (const OpId op : graph_.problem_op)
      graph_.transient_bytes.push_back(problem.ops[op].workspace_bytes);
    graph_.kept_bytes.resize(graph_.size());
    graph_.made_bytes.resize(graph_.size());
  }

  OrderGraph build() {
    std::vector<SchedValueId> made;
    for (const OpId op : graph_.problem_op)
      made.insert(made.end(), index_.makes[op].begin(), index_.makes[op].end());
    std::sort(made.begin(), made.end());
    for (const SchedValueId v : made) add_value(v);
    for (const OpId op : graph_.problem_op) add_arcs(local_[op], index_.waits_after[op]);
    add_pairs();
    finish_lists();
    return std::move(graph_);
  }

 private:
  // An op that waits may lie in a later part, where the order of the parts serves it.
  void add_arcs(OpId from, std::span<const OpId> to) {
    for (const OpId op : to) {
      const OpId local = local_[op];
      if (local.index() < graph_.size() && graph_.problem_op[local.index()] == op)
        arcs_.emplace_back(from, local);
    }
  }

  void add_value(SchedValueId id) {
    const SchedValue& value = problem_.values[id];
    const OpId producer = local_[value.producer];
    graph_.transient_bytes[producer] += value.bytes;
    add_arcs(producer, value.readers);
    if (value.bytes == 0) return;
    if (value.is_output) {
      graph_.kept_bytes[producer] += value.bytes;
      graph_.made_bytes[producer] += value.bytes;
    } else if (!value.readers.empty()) {
      graph_.made_bytes[producer] += value.bytes;
      const HeldId held = graph_.held_bytes.push_back(value.bytes);
      graph_.producer.push_back(producer);
      held_of_[id] = held;
      makes_.emplace_back(producer, held);
      for (OpId reader : value.readers) {
        reads_.emplace_back(local_[reader], held);
        readers_.emplace_back(held, local_[reader]);
      }
    }
  }

  void add_pairs() {
    std::vector<std::pair<OpId, Reuse>> reuses;
    for (const OpId op : graph_.problem_op)
      for (const size_t i : index_.pairs[op]) {
        const InPlacePair& pair = problem_.in_place[i];
        const HeldId input = held_of_[pair.input];
        if (input.valid() && problem_.values[pair.output].bytes == graph_.held_bytes[input])
          reuses.emplace_back(local_[op], Reuse{input, pair.output});
      }
    graph_.reuses = Lists<OpId, Reuse>(graph_.size(), reuses);
  }

  void finish_lists() {
    const size_t n = graph_.size(), held = graph_.held_bytes.size();
    std::sort(arcs_.begin(), arcs_.end());
    arcs_.erase(std::unique(arcs_.begin(), arcs_.end()), arcs_.end());
    graph_.succs = Lists<OpId, OpId>(n, arcs_);
    graph_.preds = Lists<OpId, OpId>(n, reversed(arcs_));
    graph_.reads = Lists<OpId, HeldId>(n, reads_);
    graph_.makes = Lists<OpId, HeldId>(n, makes_);
    graph_.readers = Lists<HeldId, OpId>(held, readers_);
    mark_late_ops(graph_);
  }

  const ScheduleProblem& problem_;
  const ProblemIndex& index_;
  const IdVector<OpId, OpId>& local_;
  IdVector<SchedValueId, HeldId> held_of_;
  OrderGraph graph_;
  Arcs arcs_;
  std::vector<std::pair<OpId, HeldId>> reads_, makes_;
  std::vector<std::pair<HeldId, OpId>> readers_;
};

}  // namespace

OrderGraph make_order_graph(const ScheduleProblem& problem, const ProblemIndex& index,
                            std::vector<OpId> ops, const IdVector<OpId, OpId>& local) {
  return GraphBuilder(problem, index, std::move(ops), local).build();
}

OrderGraph make_order_graph(const ScheduleProblem& problem) {
  IdVector<OpId, OpId> local;
  std::vector<OpId> ops;
  for (const OpId op : problem.ops.ids()) ops.push_back(local.push_back(op));
  return make_order_graph(problem, ProblemIndex(problem), std::move(ops), local);
}

}  // namespace lowtide::order
