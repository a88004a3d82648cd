#include "fission/class_ends.h"

#include <algorithm>

#include "ops/op_table.h"

namespace lowtide::fission {

Result<UnbrokenClass> unbroken_class(const ir::Graph& graph) {
  LT_ASSIGN(const std::vector<AxisClass> classes, axis_classes(graph, AxisChoice::kCoupledToo));
  UnbrokenClass made;
  if (classes.empty()) return made;
  made.bytes = classes.front().bytes;
  for (const ClassAxis& axis : classes.front().axes) {
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph, axis.op)));
    const bool is_chosen = std::any_of(map.uses.begin(), map.uses.end(), [&](const auto& use) {
      return use.axis == axis.axis && use.kind == ops::LinkKind::kChosen;
    });
    if (is_chosen || !ops::can_split(map, axis.axis))
      made.ends.push_back({axis.op, map.axes[static_cast<size_t>(axis.axis)].name});
  }
  return made;
}

int64_t made_bytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (const ir::OpId id : graph.ops())
    for (const ir::ValueId output : graph.op(id).outputs)
      if (output.valid() && graph.value(output).alias != ir::Alias::kUpdate)
        bytes += ir::size_bytes(graph.value(output)).constant().value_or(0);
  return bytes;
}

}  // namespace lowtide::fission
