#include "pipeline/graph_in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::pipeline {

namespace {

// Whether an op of the class walks the first dimension of what is fed.
Result<bool> has_samples(const ir::Graph& graph, const fission::AxisClass& axis_class) {
  for (const fission::ClassAxis& member : axis_class.axes) {
    const std::vector<ir::ValueId>& inputs = graph.op(member.op).inputs;
    const auto is_fed = [&](ir::ValueId id) {
      return id.valid() && !graph.value(id).producer.valid() &&
             graph.value(id).initial.kind == ir::InitialValue::Kind::kFed;
    };
    if (std::none_of(inputs.begin(), inputs.end(), is_fed)) continue;
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph, member.op)));
    for (const ops::AxisUse& use : map.uses)
      if (!use.is_output && use.axis == member.axis && use.dim == 0 && fission::walks_along(use) &&
          is_fed(inputs[static_cast<size_t>(use.operand)]))
        return true;
  }
  return false;
}

// The largest that has samples, or the largest.
Result<const fission::AxisClass*> class_of_samples(const ir::Graph& graph,
                                                   const std::vector<fission::AxisClass>& classes) {
  for (const fission::AxisClass& axis_class : classes) {
    LT_ASSIGN(const bool found, has_samples(graph, axis_class));
    if (found) return &axis_class;
  }
  return &classes.front();
}

}  // namespace

Result<ir::Graph> graph_in_parts(const ir::Graph& graph, const fission::Labels& labels) {
  if (labels.chosen())
    return error(ErrorCode::kUsage, "labels: 'auto' needs a plan; give the number of parts");
  if (const std::vector<std::string> free = ir::free_symbols(graph); !free.empty())
    return error(ErrorCode::kUsage,
                 fmt::format("labels: give dimension '{}' a size first", free.front()));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(graph));
  if (classes.empty() || labels.whole()) return graph;
  LT_ASSIGN(const fission::AxisClass* cut, class_of_samples(graph, classes));
  LT_ASSIGN(const fission::Levels levels, fission::levels_of(graph, *cut, labels));
  const fission::Cuts cuts = fission::cuts_of(graph, *cut, levels);
  LT_ASSIGN(const fission::Expanded by_op, fission::expand(graph, cuts));
  return fission::part_by_part(by_op, cuts).graph;
}

}  // namespace lowtide::pipeline
