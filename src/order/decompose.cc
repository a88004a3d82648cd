#include "order/decompose.h"

#include <algorithm>

#include "base/topological_order.h"

namespace lowtide::order {
namespace {

using plan::ScheduleProblem;
using plan::SchedValue;

struct ClusterTag;
using ClusterId = Id<ClusterTag>;

// Disjoint sets of ops; the name of a set is its first op.
class OpSets {
 public:
  explicit OpSets(size_t n) : parent_(n) {
    for (OpId op : parent_.ids()) parent_[op] = op;
  }
  OpId find(OpId op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }
  void join(OpId a, OpId b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  IdVector<OpId, OpId> parent_;
};

// Arcs that hold no bytes: control, and values of size 0.
std::vector<std::pair<OpId, OpId>> waiting_arcs(const ScheduleProblem& problem) {
  auto arcs = problem.control;
  for (const SchedValue& value : problem.values)
    if (value.bytes == 0)
      for (OpId reader : value.readers) arcs.emplace_back(value.producer, reader);
  return arcs;
}

// Joins ops that share a value with bytes, then clusters that wait for each other in a circle
// (Kosaraju's two passes: finish order of a depth-first search, then searches along reversed arcs
// in the opposite of that order).
OpSets make_clusters(const ScheduleProblem& problem,
                     const std::vector<std::pair<OpId, OpId>>& waiting) {
  const size_t n = problem.ops.size();
  OpSets sets(n);
  for (const SchedValue& value : problem.values)
    if (value.bytes > 0)
      for (OpId reader : value.readers) sets.join(value.producer, reader);
  std::vector<std::pair<OpId, OpId>> out, in;
  for (const auto& [first, second] : waiting) {
    const OpId a = sets.find(first), b = sets.find(second);
    if (a == b) continue;
    out.emplace_back(a, b);
    in.emplace_back(b, a);
  }
  if (out.empty()) return sets;
  const Lists<OpId, OpId> next(n, out), back(n, in);
  std::vector<OpId> finished;
  IdVector<OpId, size_t> at(n, 0);
  IdVector<OpId, char> seen(n, 0);
  for (OpId root : problem.ops.ids()) {
    if (seen[root]) continue;
    std::vector<OpId> stack{root};
    seen[root] = 1;
    while (!stack.empty()) {
      const OpId op = stack.back();
      if (at[op] == next[op].size()) {
        finished.push_back(op);
        stack.pop_back();
      } else if (const OpId to = next[op][at[op]++]; !seen[to]) {
        seen[to] = 1;
        stack.push_back(to);
      }
    }
  }
  IdVector<OpId, char> taken(n, 0);
  for (size_t i = finished.size(); i-- > 0;) {
    if (taken[finished[i]]) continue;
    std::vector<OpId> stack{finished[i]};
    taken[finished[i]] = 1;
    while (!stack.empty()) {
      const OpId op = stack.back();
      stack.pop_back();
      sets.join(op, finished[i]);
      for (OpId to : back[op]) {
        if (taken[to]) continue;
        taken[to] = 1;
        stack.push_back(to);
      }
    }
  }
  return sets;
}

struct Clusters {
  IdVector<OpId, ClusterId> of;
  size_t count = 0;
  std::vector<std::pair<ClusterId, ClusterId>> arcs;  // between different clusters
  IdVector<ClusterId, char> last;  // leaves bytes behind, or waits for a cluster that does
};

Clusters find_clusters(const ScheduleProblem& problem) {
  const auto waiting = waiting_arcs(problem);
  OpSets sets = make_clusters(problem, waiting);
  Clusters clusters;
  clusters.of = IdVector<OpId, ClusterId>(problem.ops.size());
  for (OpId op : problem.ops.ids()) {
    // The first op of its cluster, so numbered already unless it is op itself.
    const OpId name = sets.find(op);
    clusters.of[op] = name == op ? ClusterId(clusters.count++) : clusters.of[name];
  }
  for (const auto& [first, second] : waiting)
    if (clusters.of[first] != clusters.of[second])
      clusters.arcs.emplace_back(clusters.of[first], clusters.of[second]);
  clusters.last = IdVector<ClusterId, char>(clusters.count, 0);
  for (const SchedValue& value : problem.values)
    if (value.is_output && value.bytes > 0) clusters.last[clusters.of[value.producer]] = 1;
  return clusters;
}

// The clusters as they run, of those that may be next the one with the first op; marks those that
// wait for a last one.
std::vector<ClusterId> sort_clusters(Clusters& clusters) {
  IdVector<ClusterId, std::vector<ClusterId>> before(clusters.count);
  for (const auto& [first, second] : clusters.arcs) before[second].push_back(first);
  std::vector<ClusterId> order = topological_order(before);
  for (const ClusterId id : order)
    for (const ClusterId first : before[id])
      if (clusters.last[first]) clusters.last[id] = 1;
  return order;
}

}  // namespace

std::vector<OrderGraph> decompose(const ScheduleProblem& problem) {
  Clusters clusters = find_clusters(problem);
  const std::vector<ClusterId> by_time = sort_clusters(clusters);
  size_t parts = 0;
  IdVector<ClusterId, size_t> part_of(clusters.count, 0);
  for (ClusterId b : by_time)
    if (!clusters.last[b]) part_of[b] = parts++;
  for (ClusterId b : by_time)
    if (clusters.last[b]) part_of[b] = parts;
  std::vector<std::vector<OpId>> ops_of(parts + 1);
  IdVector<OpId, OpId> local(problem.ops.size());
  for (OpId op : problem.ops.ids()) {
    auto& ops = ops_of[part_of[clusters.of[op]]];
    local[op] = OpId(ops.size());
    ops.push_back(op);
  }
  const plan::ProblemIndex index(problem);
  std::vector<OrderGraph> graphs;
  for (std::vector<OpId>& ops : ops_of)
    if (!ops.empty()) graphs.push_back(make_order_graph(problem, index, std::move(ops), local));
  return graphs;
}

}  // namespace lowtide::order
