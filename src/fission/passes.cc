#include "fission/passes.h"

#include <algorithm>
#include <utility>

#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;

class PassFinder {
 public:
  // `maps`: of the class's ops at least; they must stay.
  PassFinder(const ir::Graph& graph, const AxisClass& axis_class,
             const IdVector<OpId, ops::AxisMap>& maps)
      : graph_(graph), class_(axis_class), maps_(maps), axis_of_(graph.op_count(), -1) {
    for (const ClassAxis& axis : axis_class.axes) axis_of_[axis.op] = axis.axis;
  }

  std::set<OpId> awaited() const {
    std::set<OpId> found;
    for (const ClassAxis& axis : class_.axes)
      for (const ValueId output : graph_.op(axis.op).outputs)
        for (const OpId reader : output.valid() ? graph_.readers(output) : std::span<const OpId>())
          if (waits_for_any(reader, output)) found.insert(axis.op);
    return found;
  }

  Passes run() {
    made_.of = IdVector<OpId, int>(graph_.op_count(), 0);
    made_.waits_for = IdVector<OpId, std::vector<OpId>>(graph_.op_count());
    for (const OpId id : graph_.ops()) {
      add(id);
      if (in_class(id)) made_.count = std::max(made_.count, made_.of[id] + 1);
    }
    return std::move(made_);
  }

 private:
  bool in_class(OpId id) const { return axis_of_[id] >= 0; }
  bool has_share(OpId id, int operand, bool is_output) const {
    return has_share_of(maps_[id], axis_of_[id], operand, is_output);
  }

  // Whether the op, which reads the operand, can only run behind all parts of its maker: it is in
  // the class, and neither passes its parts on nor adds up what others add to.
  bool waits_for_maker(OpId id, size_t operand) const {
    const ValueId value = graph_.op(id).inputs[operand];
    const OpId maker = graph_.value(value).producer;
    const int input = static_cast<int>(operand);
    if (!in_class(maker)) return false;
    if (in_class(id) && has_share(id, input, /*is_output=*/false) &&
        has_share(maker, output_of(maker, value), /*is_output=*/true))
      return false;
    const auto accumulators = ops::accumulators(ops::instance_of(graph_, id));
    return std::none_of(accumulators.begin(), accumulators.end(),
                        [&](const auto& pair) { return pair.first == input; });
  }
  bool waits_for_any(OpId reader, ValueId value) const {
    const auto& inputs = graph_.op(reader).inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == value && waits_for_maker(reader, i)) return true;
    return false;
  }

  void add(OpId id) {
    const ir::Op& op = graph_.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.inputs[i].valid() || !graph_.value(op.inputs[i]).producer.valid()) continue;
      const OpId maker = graph_.value(op.inputs[i]).producer;
      const bool waits = waits_for_maker(id, i);
      made_.of[id] = std::max(made_.of[id], made_.of[maker] + (waits ? 1 : 0));
      if (waits) wait(id, is_view(maker) ? makers_behind(maker) : std::vector{maker});
      if (is_view(maker) || !in_class(maker)) wait(id, made_.waits_for[maker]);
    }
  }

  void wait(OpId id, const std::vector<OpId>& more) {
    std::vector<OpId>& all = made_.waits_for[id];
    all.insert(all.end(), more.begin(), more.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }

  int output_of(OpId maker, ValueId value) const {
    const auto& outputs = graph_.op(maker).outputs;
    return static_cast<int>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
  }
  bool is_view(OpId id) const {
    const auto& outputs = graph_.op(id).outputs;
    return !outputs.empty() && graph_.value(outputs[0]).alias == ir::Alias::kView;
  }
  // The ops that make what a view of the class shows, as far as they are in the class.
  std::vector<OpId> makers_behind(OpId view) const {
    ValueId value = graph_.op(view).outputs[0];
    while (graph_.value(value).alias == ir::Alias::kView) value = graph_.value(value).base;
    const OpId maker = graph_.value(value).producer;
    return maker.valid() && in_class(maker) ? std::vector{maker} : std::vector<OpId>{};
  }

  const ir::Graph& graph_;
  const AxisClass& class_;
  const IdVector<OpId, ops::AxisMap>& maps_;
  IdVector<OpId, int> axis_of_;  // -1: not in the class
  Passes made_;
};

}  // namespace

namespace {

// A part needs more than its own share of the operand: rows around it that other parts need too; or
// it makes more than that of a result, and others add to it.
bool reaches_beyond(const ops::AxisUse& use) {
  return use.kind == ops::LinkKind::kWindow &&
         !(use.halo_low.constant() == 0 && use.halo_high.constant() == 0);
}

}  // namespace

bool has_share_of(const ops::AxisMap& map, int axis, int operand, bool is_output) {
  bool walks = false;
  for (const ops::AxisUse& use : map.uses) {
    if (use.axis != axis || use.operand != operand || use.is_output != is_output) continue;
    if (!walks_along(use)) continue;
    if (reaches_beyond(use)) return false;
    walks = true;
  }
  return walks;
}

Result<Passes> passes_of(const ir::Graph& graph, const AxisClass& axis_class) {
  IdVector<OpId, ops::AxisMap> maps(graph.op_count());
  for (const ClassAxis& axis : axis_class.axes) {
    LT_ASSIGN(maps[axis.op], ops::axis_map(ops::instance_of(graph, axis.op)));
  }
  return PassFinder(graph, axis_class, maps).run();
}

std::set<OpId> awaited_of(const ir::Graph& graph, const AxisClass& axis_class,
                          const IdVector<OpId, ops::AxisMap>& maps) {
  return PassFinder(graph, axis_class, maps).awaited();
}

}  // namespace lowtide::fission
