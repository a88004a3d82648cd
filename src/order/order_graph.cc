#include "order/order_graph.h"

#include <algorithm>
#include <numeric>

#include "order/late.h"

namespace lowtide::order {
namespace {

using plan::InPlacePair;
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
  GraphBuilder(const ScheduleProblem& problem, const PartMembers& members,
               const IdVector<OpId, OpId>& local)
      : problem_(problem), members_(members), local_(local), held_of_(problem.values.size()) {
    const size_t n = members.ops.size();
    graph_.problem_op = members.ops;
    graph_.transient_bytes.resize(n);
    graph_.kept_bytes.resize(n);
    graph_.made_bytes.resize(n);
    for (size_t i = 0; i < n; ++i)
      graph_.transient_bytes[OpId(i)] = problem.ops[members.ops[i]].workspace_bytes;
  }

  OrderGraph build() {
    for (SchedValueId v : members_.values) add_value(v);
    for (const auto& [first, second] : members_.control)
      arcs_.emplace_back(local_[first], local_[second]);
    add_pairs();
    finish_lists();
    return std::move(graph_);
  }

 private:
  void add_value(SchedValueId id) {
    const SchedValue& value = problem_.values[id];
    const OpId producer = local_[value.producer];
    graph_.transient_bytes[producer] += value.bytes;
    if (value.bytes == 0) {
      add_crossing_readers(value, producer);
      return;
    }
    for (OpId reader : value.readers) arcs_.emplace_back(producer, local_[reader]);
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

  // Readers of an empty value may lie in a later part, where the order of the parts serves them.
  void add_crossing_readers(const SchedValue& value, OpId producer) {
    for (OpId reader : value.readers) {
      const OpId to = local_[reader];
      if (to.index() < members_.ops.size() && members_.ops[to.index()] == reader)
        arcs_.emplace_back(producer, to);
    }
  }

  void add_pairs() {
    std::vector<std::pair<OpId, Reuse>> reuses;
    for (const InPlacePair& pair : members_.pairs) {
      const HeldId input = held_of_[pair.input];
      if (!input.valid() || problem_.values[pair.output].bytes != graph_.held_bytes[input])
        continue;
      reuses.emplace_back(local_[pair.op], Reuse{input, pair.output});
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
  const PartMembers& members_;
  const IdVector<OpId, OpId>& local_;
  IdVector<SchedValueId, HeldId> held_of_;
  OrderGraph graph_;
  Arcs arcs_;
  std::vector<std::pair<OpId, HeldId>> reads_, makes_;
  std::vector<std::pair<HeldId, OpId>> readers_;
};

}  // namespace

OrderGraph make_order_graph(const ScheduleProblem& problem, const PartMembers& members,
                            const IdVector<OpId, OpId>& local) {
  return GraphBuilder(problem, members, local).build();
}

OrderGraph make_order_graph(const ScheduleProblem& problem) {
  PartMembers all;
  IdVector<OpId, OpId> local(problem.ops.size());
  for (OpId op : problem.ops.ids()) {
    all.ops.push_back(op);
    local[op] = op;
  }
  for (SchedValueId v : problem.values.ids()) all.values.push_back(v);
  all.pairs = problem.in_place;
  all.control = problem.control;
  return make_order_graph(problem, all, local);
}

}  // namespace lowtide::order
