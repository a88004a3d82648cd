#include "fission/part_order.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/topological_order.h"
#include "ir/reorder.h"

namespace lowtide::fission {
namespace {

using ir::OpId;

// Where the part of each op begins in the loop over its op.
using Starts = IdVector<OpId, int64_t>;

Starts starts_of(const Expanded& expanded, const IdVector<OpId, std::vector<OpId>>& before) {
  const ir::Graph& graph = expanded.graph;
  IdVector<OpId, char> is_part(graph.op_count(), 0);
  Starts starts(graph.op_count(), 0);
  for (OpId old : expanded.parts.ids()) {
    const std::vector<OpId>& parts = expanded.parts[old];
    for (size_t k = 0; parts.size() > 1 && k < parts.size(); ++k) {
      is_part[parts[k]] = 1;
      starts[parts[k]] = expanded.stretches[old][k].begin;
    }
  }
  // The first part that needs what others make; then the latest part that they need themselves.
  Starts needed(graph.op_count(), Stretch::kLoop);
  for (size_t i = graph.op_count(); i-- > 0;) {
    const OpId id(i);
    const int64_t here = is_part[id] ? starts[id] : needed[id];
    for (OpId maker : before[id]) needed[maker] = std::min(needed[maker], here);
  }
  for (OpId id : graph.ops()) {
    if (is_part[id]) continue;
    if (needed[id] < Stretch::kLoop) starts[id] = needed[id];
    for (OpId maker : before[id]) starts[id] = std::max(starts[id], starts[maker]);
  }
  return starts;
}

}  // namespace

Expanded part_by_part(const Expanded& expanded) {
  const ir::Graph& graph = expanded.graph;
  const IdVector<OpId, std::vector<OpId>> before = ir::must_precede(graph);
  const Starts starts = starts_of(expanded, before);
  const std::vector<OpId> order = topological_order(before, [&](OpId id) { return starts[id]; });
  LT_CHECK(order.size() == graph.op_count(), "a graph in a valid order has no cycle");
  ir::Rewritten made = ir::reorder(graph, order);
  Expanded result{std::move(made.graph), expanded.parts, expanded.stretches, expanded.windows};
  for (std::vector<OpId>& parts : result.parts)
    for (OpId& part : parts) part = made.op[part];
  return result;
}

}  // namespace lowtide::fission
