#include "fission/passes.h"

#include <algorithm>
#include <utility>

#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;

// A class's ops by number, and what a part of each has of its operands and results.
class Members {
 public:
  Members(const ir::Graph& graph, const AxisClass& axis_class)
      : at_(graph.op_count(), -1), walked_(axis_class.axes.size()) {
    for (size_t k = 0; k < axis_class.axes.size(); ++k)
      at_[axis_class.axes[k].op] = static_cast<int>(k);
  }

  bool contains(OpId op) const { return at_[op] >= 0; }
  Walked& walked(OpId op) { return walked_[static_cast<size_t>(at_[op])]; }
  const Walked& walked(OpId op) const { return walked_[static_cast<size_t>(at_[op])]; }

 private:
  IdVector<OpId, int> at_;  // -1: not in the class
  std::vector<Walked> walked_;
};

class PassFinder {
 public:
  PassFinder(const ir::Graph& graph, const AxisClass& axis_class)
      : graph_(graph), class_(axis_class), members_(graph, axis_class) {}

  std::set<OpId> awaited(const IdVector<OpId, ops::AxisMap>& maps) {
    for (const ClassAxis& axis : class_.axes)
      members_.walked(axis.op) = walked_along(maps[axis.op], axis.axis);
    std::set<OpId> found;
    for (const ClassAxis& axis : class_.axes)
      for (const ValueId output : graph_.op(axis.op).outputs)
        for (const OpId reader : output.valid() ? graph_.readers(output) : std::span<const OpId>())
          if (waits_for_any(reader, output)) found.insert(axis.op);
    return found;
  }

  Result<Passes> run() {
    for (const ClassAxis& axis : class_.axes) {
      LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph_, axis.op)));
      members_.walked(axis.op) = walked_along(map, axis.axis);
    }
    made_.of = IdVector<OpId, int>(graph_.op_count(), 0);
    made_.waits_for = IdVector<OpId, std::vector<OpId>>(graph_.op_count());
    for (const OpId id : graph_.ops()) {
      add(id);
      if (members_.contains(id)) made_.count = std::max(made_.count, made_.of[id] + 1);
    }
    return std::move(made_);
  }

 private:
  // Whether the op, which reads the operand, can only run behind all parts of its maker: it is in
  // the class, and neither passes its parts on nor adds up what others add to.
  bool waits_for_maker(OpId id, size_t operand) const {
    const ValueId value = graph_.op(id).inputs[operand];
    const OpId maker = graph_.value(value).producer;
    const int input = static_cast<int>(operand);
    if (!members_.contains(maker)) return false;
    if (members_.contains(id) && members_.walked(id).reads(input) &&
        members_.walked(maker).makes(output_of(maker, value)))
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
      if (is_view(maker) || !members_.contains(maker)) wait(id, made_.waits_for[maker]);
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
  // Who makes what a view of the class shows, as far as that is in the class.
  std::vector<OpId> makers_behind(OpId view) const {
    ValueId value = graph_.op(view).outputs[0];
    while (graph_.value(value).alias == ir::Alias::kView) value = graph_.value(value).base;
    const OpId maker = graph_.value(value).producer;
    return maker.valid() && members_.contains(maker) ? std::vector{maker} : std::vector<OpId>{};
  }

  const ir::Graph& graph_;
  const AxisClass& class_;
  Members members_;
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

bool Walked::reads(int input) const {
  return std::binary_search(inputs.begin(), inputs.end(), input);
}

bool Walked::makes(int output) const {
  return std::binary_search(outputs.begin(), outputs.end(), output);
}

Walked walked_along(const ops::AxisMap& map, int axis) {
  Walked walked, beyond;
  for (const ops::AxisUse& use : map.uses) {
    if (use.axis != axis || !walks_along(use)) continue;
    (use.is_output ? walked.outputs : walked.inputs).push_back(use.operand);
    if (reaches_beyond(use))
      (use.is_output ? beyond.outputs : beyond.inputs).push_back(use.operand);
  }
  const auto settle = [](std::vector<int>& all, const std::vector<int>& left_out) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const int one : left_out) all.erase(std::remove(all.begin(), all.end(), one), all.end());
  };
  settle(walked.inputs, beyond.inputs);
  settle(walked.outputs, beyond.outputs);
  return walked;
}

Result<Passes> passes_of(const ir::Graph& graph, const AxisClass& axis_class) {
  return PassFinder(graph, axis_class).run();
}

std::set<OpId> awaited_of(const ir::Graph& graph, const AxisClass& axis_class,
                          const IdVector<OpId, ops::AxisMap>& maps) {
  return PassFinder(graph, axis_class).awaited(maps);
}

}  // namespace lowtide::fission
