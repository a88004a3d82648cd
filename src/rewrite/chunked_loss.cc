#include "rewrite/chunked_loss.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "ops/op_table.h"
#include "rewrite/label_counts.h"

namespace lowtide::rewrite {
namespace {

using fission::AxisClass;
using fission::ClassAxis;
using ir::OpId;
using ir::ValueId;

int64_t elements_of(const ir::Graph& graph, ValueId value) {
  return ir::element_count(graph.value(value)).constant().value_or(0);
}

// What is cut together, along which axes, in how many chunks.
struct Region {
  std::vector<ClassAxis> axes;
  int64_t chunks = 1, units = 1;
};

// The ops of a class around a loss, joined by values that they walk along it and that have as many
// elements as the logits. Nothing where a product makes such a value of such a value: that is a
// layer, and these are no logits.
class RegionFinder {
 public:
  RegionFinder(const ir::Graph& graph, const AxisClass& axis_class)
      : graph_(graph), of_op_(graph.op_count(), nullptr) {
    for (const ClassAxis& axis : axis_class.axes) of_op_[axis.op] = &axis;
  }

  Result<std::optional<Region>> around(OpId loss) const {
    const int64_t many = elements_of(graph_, graph_.op(loss).inputs[0]);
    Region region;
    int64_t most_beside = 1;
    std::vector<OpId> open = {loss};
    IdVector<OpId, char> seen(graph_.op_count(), 0);
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      if (of_op_[op] == nullptr || std::exchange(seen[op], 1) != 0) continue;
      if (is_layer(graph_.op(op), many)) return std::nullopt;
      region.axes.push_back(*of_op_[op]);
      LT_ASSIGN(const Values values, values_at(*of_op_[op]));
      for (const ValueId value : values.all)
        if (!values.walked.contains(value) || elements_of(graph_, value) != many)
          most_beside = std::max(most_beside, elements_of(graph_, value));
      for (const ValueId value : values.walked) {
        if (elements_of(graph_, value) != many) continue;
        if (graph_.value(value).producer.valid()) open.push_back(graph_.value(value).producer);
        for (const OpId reader : graph_.readers(value)) open.push_back(reader);
      }
    }
    if (region.axes.empty()) return std::nullopt;
    const auto least = [](const ClassAxis& a, const ClassAxis& b) { return a.extent < b.extent; };
    region.units = std::min_element(region.axes.begin(), region.axes.end(), least)->extent;
    region.chunks = std::min(region.units, (many + most_beside - 1) / most_beside);
    return region;
  }

 private:
  // Of an op: all that it reads and makes, and what of it has a slice for each part.
  struct Values {
    std::vector<ValueId> all;
    std::set<ValueId> walked;
  };
  Result<Values> values_at(const ClassAxis& axis) const {
    const ir::Op& op = graph_.op(axis.op);
    Values values{op.outputs, {}};
    for (const ValueId input : op.inputs)
      if (input.valid()) values.all.push_back(input);
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph_, axis.op)));
    for (const ops::AxisUse& use : map.uses) {
      if (use.axis != axis.axis || !fission::walks_along(use)) continue;
      const auto& operands = use.is_output ? op.outputs : op.inputs;
      const auto operand = static_cast<size_t>(use.operand);
      if (operand < operands.size() && operands[operand].valid())
        values.walked.insert(operands[operand]);
    }
    return values;
  }

  bool is_layer(const ir::Op& op, int64_t many) const {
    return op.kind == "MatMul" && elements_of(graph_, op.inputs[0]) == many &&
           elements_of(graph_, op.outputs[0]) == many;
  }

  const ir::Graph& graph_;
  IdVector<OpId, const ClassAxis*> of_op_;  // none: not in the class
};

// The class with the most chunks decides: of few samples rows are those of the sequence.
Result<std::optional<Region>> region_of(const ir::Graph& graph,
                                        const std::vector<AxisClass>& classes, OpId loss) {
  std::optional<Region> best;
  for (const AxisClass& axis_class : classes) {
    LT_ASSIGN(std::optional<Region> region, RegionFinder(graph, axis_class).around(loss));
    if (region && region->chunks > (best ? best->chunks : 1)) best = std::move(region);
  }
  return best;
}

// Of all losses; an op in the regions of two is cut as the first of them says.
Result<fission::Cuts> cuts_of_losses(const ir::Graph& graph, int64_t& ops) {
  fission::Cuts cuts(graph.op_count());
  std::vector<OpId> losses;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == "CrossEntropy") losses.push_back(id);
  if (losses.empty()) return cuts;
  LT_ASSIGN(const std::vector<AxisClass> classes, fission::axis_classes(graph));
  for (const OpId loss : losses) {
    LT_ASSIGN(const std::optional<Region> region, region_of(graph, classes, loss));
    if (!region) continue;
    for (const ClassAxis& axis : region->axes) {
      if (cuts[axis.op]) continue;
      cuts[axis.op] = {axis.axis, fission::even_bounds(axis.extent, region->chunks, region->units)};
      ++ops;
    }
  }
  return cuts;
}

}  // namespace

// Again until there is nothing to do: chunks of few samples may be of too many rows each.
Result<ChunkedLossReport> loss_in_chunks(const ir::Graph& graph) {
  ChunkedLossReport report;
  LT_ASSIGN(const LabelCountsReport counted, count_labels_first(graph));
  const ir::Graph* current = &counted.graph;
  while (true) {
    int64_t ops = 0;
    LT_ASSIGN(const fission::Cuts cuts, cuts_of_losses(*current, ops));
    if (ops == 0) return report;
    LT_ASSIGN(const fission::Expanded by_op, fission::expand(*current, cuts));
    report.graph = fission::part_by_part(by_op).graph;
    report.ops += ops;
    current = &report.graph;
  }
}

}  // namespace lowtide::rewrite
