#include "remat/bounds/step_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lowtide::remat {
namespace {

constexpr int64_t kMostSum = int64_t{1} << 61;

using Arcs = std::vector<std::pair<SchedOpId, SchedOpId>>;

Arcs turned(const Lists<SchedOpId, SchedOpId>& lists, size_t keys, size_t items) {
  Arcs arcs;
  arcs.reserve(items);
  for (size_t key = 0; key < keys; ++key)
    for (const SchedOpId item : lists[SchedOpId(key)]) arcs.emplace_back(item, SchedOpId(key));
  return arcs;
}

// Pairs of ops in their order, ascending, each once: sorted by counting, as graphs of this kind are
// made by the thousand (pipeline/label_search.h).
Arcs all_arcs(const plan::ScheduleProblem& problem) {
  Arcs arcs;
  size_t count = problem.control.size();
  for (const plan::SchedValue& value : problem.values) count += value.readers.size();
  arcs.reserve(count);
  for (const auto& [first, second] : problem.control) arcs.emplace_back(second, first);
  for (const plan::SchedValue& value : problem.values)
    for (SchedOpId reader : value.readers) arcs.emplace_back(reader, value.producer);
  const size_t ops = problem.ops.size();
  const Lists<SchedOpId, SchedOpId> from(ops, turned({ops, arcs}, ops, count));
  arcs.clear();
  for (const SchedOpId first : problem.ops.ids())
    for (const SchedOpId second : from[first])
      if (arcs.empty() || arcs.back() != std::pair(first, second)) arcs.emplace_back(first, second);
  return arcs;
}

}  // namespace

int64_t scaled_down(int64_t x, int64_t y) {
  const __int128 product = static_cast<__int128>(x) * y;
  return static_cast<int64_t>(std::min<__int128>(product / kOne, kMostSum));
}

int64_t scaled_up(int64_t x, int64_t y) {
  const __int128 product = static_cast<__int128>(x) * y + kOne - 1;
  return static_cast<int64_t>(std::min<__int128>(product / kOne, kMostSum));
}

LinkTicks link_ticks(const StepGraph& graph, int64_t bytes) {
  if (!graph.link) return {};
  const auto all = static_cast<double>(bytes);
  return {graph.scale.down(all / graph.link->bytes_per_second_out),
          graph.scale.down(all / graph.link->bytes_per_second_in),
          graph.scale.down(all * graph.link->compute_seconds_per_byte)};
}

int64_t ticks_of_staying(int64_t bytes, int64_t price) {
  return std::min(plan::kMostTicks, scaled_down(bytes, price));
}

StepGraph::StepGraph(const plan::ScheduleProblem& p, plan::ProblemIndex index)
    : ProblemIndex(std::move(index)),
      problem(&p),
      link(plan::combined_link(p)),
      scale(p),
      once_ticks(scale.once()) {
  auto arcs = all_arcs(p);
  succs = {size(), arcs};
  for (auto& arc : arcs) std::swap(arc.first, arc.second);
  preds = {size(), arcs};
  ticks.reserve(size());
  may_rerun.reserve(size());
  for (const plan::SchedOp& op : p.ops) {
    ticks.push_back(scale.down(op.seconds));
    may_rerun.push_back(op.may_rerun ? 1 : 0);
  }
  values.reserve(p.values.size());
  for (const plan::SchedValue& value : p.values)
    values.push_back({value.bytes, value.moved_parts, value.producer, value.is_output});
}

IdVector<SchedOpId, Side> sides_of(const StepGraph& graph, SchedOpId op) {
  IdVector<SchedOpId, Side> side(graph.size(), Side::kOther);
  const auto spread = [&](const Lists<SchedOpId, SchedOpId>& next, Side mark) {
    std::vector<SchedOpId> stack{op};
    while (!stack.empty()) {
      const SchedOpId at = stack.back();
      stack.pop_back();
      for (SchedOpId to : next[at]) {
        if (side[to] == mark) continue;
        side[to] = mark;
        stack.push_back(to);
      }
    }
  };
  spread(graph.preds, Side::kBefore);
  spread(graph.succs, Side::kAfter);
  side[op] = Side::kSelf;
  return side;
}

}  // namespace lowtide::remat
