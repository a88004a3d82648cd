#include "pipeline/graph_in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "ir/graph.h"

namespace lowtide::pipeline {

namespace {

// Those of samples. Samples are one dimension through ops that couple them, too (a
// batch norm), of which each class that they end has a stretch; and each batch has classes of its
// own where gradients accumulate.
Result<std::vector<fission::AxisClass>> classes_of_samples(const ir::Graph& graph) {
  LT_ASSIGN(const std::vector<fission::AxisClass> unbroken,
            fission::axis_classes(graph, fission::AxisChoice::kCoupledToo));
  std::set<std::pair<ir::OpId, int>> samples;
  for (const fission::AxisClass& axis_class : unbroken) {
    LT_ASSIGN(const bool is_meant, fission::walks_samples(graph, axis_class));
    for (const fission::ClassAxis& axis : axis_class.axes)
      if (is_meant) samples.emplace(axis.op, axis.axis);
  }
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(graph));
  std::vector<fission::AxisClass> found;
  for (const fission::AxisClass& axis_class : classes)
    if (std::any_of(axis_class.axes.begin(), axis_class.axes.end(), [&](const auto& axis) {
          return samples.contains({axis.op, axis.axis});
        }))
      found.push_back(axis_class);
  return found;
}

}  // namespace

Result<ir::Graph> graph_in_parts(const ir::Graph& graph, const fission::Labels& labels) {
  if (labels.chosen())
    return error(ErrorCode::kUsage, "labels: 'auto' needs a plan; give the number of parts");
  if (const std::vector<std::string> free = ir::free_symbols(graph); !free.empty())
    return error(ErrorCode::kUsage,
                 fmt::format("labels: give dimension '{}' a size first", free.front()));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, classes_of_samples(graph));
  if (classes.empty() || labels.whole()) return graph;
  fission::Cuts cuts(graph.op_count());
  for (const fission::AxisClass& axis_class : classes) {
    const bool is_first = &axis_class == &classes.front();
    const fission::Labels its = is_first ? labels : fission::Labels{.parts = labels.parts};
    LT_ASSIGN(const fission::Levels levels, fission::levels_of(graph, axis_class, its));
    const fission::Cuts more = fission::cuts_of(graph, axis_class, levels);
    for (const ir::OpId id : graph.ops())
      if (more[id] && !cuts[id]) cuts[id] = more[id];
  }
  LT_ASSIGN(const fission::Expanded by_op, fission::expand(graph, cuts));
  return fission::part_by_part(by_op).graph;
}

}  // namespace lowtide::pipeline
