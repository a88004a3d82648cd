#include "fission/part_order.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/topological_order.h"
#include "ir/reorder.h"

namespace lowtide::fission {
namespace {

using ir::OpId;

// Where the part of each op begins on its axis, from 0 to below 1, in millionths: whole numbers are
// the same on every machine.
using Starts = IdVector<OpId, int64_t>;
constexpr int64_t kWholeAxis = 1'000'000;

Starts starts_of(const Expanded& expanded, const Cuts& cuts,
                 const IdVector<OpId, std::vector<OpId>>& before) {
  const ir::Graph& graph = expanded.graph;
  IdVector<OpId, char> is_part(graph.op_count(), 0);
  Starts starts(graph.op_count(), 0);
  for (OpId old : expanded.parts.ids()) {
    if (!cuts[old]) continue;
    const Bounds& bounds = cuts[old]->bounds;
    for (size_t k = 0; k < expanded.parts[old].size(); ++k) {
      is_part[expanded.parts[old][k]] = 1;
      starts[expanded.parts[old][k]] = bounds[k] * kWholeAxis / bounds.back();
    }
  }
  // The first part that needs what others make; then the latest part that they need themselves.
  Starts needed(graph.op_count(), kWholeAxis);
  for (size_t i = graph.op_count(); i-- > 0;) {
    const OpId id(i);
    const int64_t here = is_part[id] ? starts[id] : needed[id];
    for (OpId maker : before[id]) needed[maker] = std::min(needed[maker], here);
  }
  for (OpId id : graph.ops()) {
    if (is_part[id]) continue;
    if (needed[id] < kWholeAxis) starts[id] = needed[id];
    for (OpId maker : before[id]) starts[id] = std::max(starts[id], starts[maker]);
  }
  return starts;
}

}  // namespace

Expanded part_by_part(const Expanded& expanded, const Cuts& cuts) {
  const ir::Graph& graph = expanded.graph;
  const IdVector<OpId, std::vector<OpId>> before = ir::must_precede(graph);
  const Starts starts = starts_of(expanded, cuts, before);
  const std::vector<OpId> order = topological_order(before, [&](OpId id) { return starts[id]; });
  LT_CHECK(order.size() == graph.op_count(), "a graph in a valid order has no cycle");
  ir::Rewritten made = ir::reorder(graph, order);
  Expanded result{std::move(made.graph), expanded.parts};
  for (std::vector<OpId>& parts : result.parts)
    for (OpId& part : parts) part = made.op[part];
  return result;
}

}  // namespace lowtide::fission
