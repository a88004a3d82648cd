#include "ops/testing/dimension_edges.h"

namespace lowtide::ops {
namespace {

bool edge_along(const AxisUse& use) {
  return use.kind != LinkKind::kBroadcast && use.outermost;
}

}  // namespace

Result<std::vector<DimEdge>> dimension_edges(const Instance& instance) {
  LT_ASSIGN(const AxisMap map, axis_map(instance));
  std::vector<DimEdge> edges;
  for (const AxisUse& from : map.uses) {
    if (from.is_output || !edge_along(from) || !can_split(map, from.axis)) continue;
    bool reaches_output = false;
    for (const AxisUse& to : map.uses) {
      if (!to.is_output || to.axis != from.axis || !edge_along(to)) continue;
      reaches_output = true;
      edges.push_back({from.operand, from.dim, to.operand, to.dim, from.axis,
                       from.kind == LinkKind::kDirect ? to.kind : from.kind});
    }
    if (!reaches_output) edges.push_back({from.operand, from.dim, -1, -1, from.axis, from.kind});
  }
  return edges;
}

}  // namespace lowtide::ops
