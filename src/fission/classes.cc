#include "fission/classes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fission/passes.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct BeforehandTuning {
  int64_t few = 64;  // what is whole beforehand has at most this part of a class's bytes
};
constexpr BeforehandTuning kBeforehand;

bool overwrites(const ir::Graph& graph, ir::OpId id) {
  const auto& outputs = graph.op(id).outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](ir::ValueId v) {
    return v.valid() && graph.value(v).alias == ir::Alias::kUpdate;
  });
}

// Union-find over axes; a component knows which axis it has of each op.
class Components {
 public:
  size_t add(ir::OpId op, int axis) {
    parent_.push_back(parent_.size());
    axis_of_.push_back({{op, axis}});
    return parent_.size() - 1;
  }
  size_t root(size_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  // Unless an op would have two axes in one.
  void join(size_t one, size_t other) {
    one = root(one), other = root(other);
    if (one == other) return;
    if (axis_of_[one].size() < axis_of_[other].size()) std::swap(one, other);
    for (const auto& [op, axis] : axis_of_[other])
      if (axis_of_[one].contains(op)) return;
    axis_of_[one].merge(axis_of_[other]);
    parent_[other] = one;
  }
  const std::map<ir::OpId, int>& axes(size_t root) const { return axis_of_[root]; }

 private:
  std::vector<size_t> parent_;
  std::vector<std::map<ir::OpId, int>> axis_of_;
};

class Classes {
 public:
  Classes(const ir::Graph& graph, AxisChoice choice)
      : graph_(graph), also_coupled_(choice == AxisChoice::kCoupledToo) {}

  Result<std::vector<AxisClass>> run() {
    for (ir::OpId id : graph_.ops())
      if (!overwrites(graph_, id)) LT_RETURN_IF_ERROR(add_op(id));
    join_through_values();
    return classes();
  }

 private:
  // An axis of an op that walks a dimension of a value.
  struct Walk {
    size_t node;
    bool makes;
  };

  Status add_op(ir::OpId id) {
    const ir::Op& op = graph_.op(id);
    const ops::Instance instance = ops::instance_of(graph_, id);
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(instance));
    for (const ops::AxisUse& use : map.uses) {
      if (!may_be_member(map, use)) continue;
      const auto& operands = use.is_output ? op.outputs : op.inputs;
      const auto at = static_cast<size_t>(use.operand);
      const auto extent = map.axes[static_cast<size_t>(use.axis)].extent.constant();
      if (at >= operands.size() || !operands[at].valid() || !extent || *extent < 2) continue;
      const auto [node, is_new] = node_.try_emplace({id, use.axis}, 0);
      if (is_new) node->second = components_.add(id, use.axis);
      extent_[{id, use.axis}] = *extent;
      if (use.kind == ops::LinkKind::kWindow || use.kind == ops::LinkKind::kShift)
        padded_.insert({id, use.axis});
      walks_[{operands[at], use.dim}].push_back({node->second, use.is_output});
      if (use.is_output)
        bytes_[{id, use.axis}] += *ir::size_bytes(graph_.value(operands[at])).constant();
    }
    return {};
  }

  bool may_be_member(const ops::AxisMap& map, const ops::AxisUse& use) const {
    if (!also_coupled_) return ops::can_split(map, use.axis) && walks_along(use);
    return use.axis >= 0 && (walks_along(use) || use.kind == ops::LinkKind::kChosen);
  }

  void join_through_values() {
    std::vector<std::tuple<int64_t, ir::ValueId, int>> by_bytes;
    for (const auto& [dim, walks] : walks_)
      by_bytes.emplace_back(-*ir::size_bytes(graph_.value(dim.first)).constant(), dim.first,
                            dim.second);
    std::sort(by_bytes.begin(), by_bytes.end());
    for (const auto& [bytes, value, dim] : by_bytes) {
      const std::vector<Walk>& walks = walks_.at({value, dim});
      const auto maker =
          std::find_if(walks.begin(), walks.end(), [](const Walk& walk) { return walk.makes; });
      const Walk& first = maker == walks.end() ? walks.front() : *maker;
      for (const Walk& walk : walks) components_.join(first.node, walk.node);
    }
  }

  std::vector<AxisClass> classes() {
    std::vector<AxisClass> all;
    for (const auto& [axis, node] : node_) {
      if (components_.root(node) != node || components_.axes(node).size() < 2) continue;
      AxisClass& made = all.emplace_back();
      for (const auto& member : components_.axes(node)) {
        const auto found = bytes_.find(member);
        const int64_t bytes = found == bytes_.end() ? 0 : found->second;
        made.axes.push_back(
            {member.first, member.second, extent_.at(member), bytes, padded_.contains(member)});
        made.bytes += bytes;
      }
      made.least_extent =
          std::min_element(made.axes.begin(), made.axes.end(), [](const auto& a, const auto& b) {
            return a.extent < b.extent;
          })->extent;
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return all;
  }

  const ir::Graph& graph_;
  const bool also_coupled_;
  Components components_;
  using Axis = std::pair<ir::OpId, int>;
  std::map<Axis, size_t> node_;
  std::map<Axis, int64_t> extent_, bytes_;
  std::set<Axis> padded_;
  std::map<std::pair<ir::ValueId, int>, std::vector<Walk>> walks_;  // by value and dimension
};

// A class without the ops whose results all parts wait for before the first of them can run, and
// those that these are made of: of parameters and given whole numbers alone (labels; words that are
// few bytes), and few bytes all together.
class Beforehand {
 public:
  Beforehand(const ir::Graph& graph, const AxisClass& axis_class)
      : graph_(graph), axis_class_(axis_class), bytes_(graph.op_count(), -1) {
    for (const ClassAxis& axis : axis_class.axes) bytes_[axis.op] = axis.bytes;
  }

  Result<AxisClass> run() {
    LT_ASSIGN(const std::set<ir::OpId> all_awaited, awaited_of(graph_, axis_class_));
    for (const ir::OpId awaited : all_awaited) add(awaited);
    AxisClass left;
    left.least_extent = std::numeric_limits<int64_t>::max();
    for (const ClassAxis& axis : axis_class_.axes) {
      if (whole_.contains(axis.op)) continue;
      left.axes.push_back(axis);
      left.bytes += axis.bytes;
      left.least_extent = std::min(left.least_extent, axis.extent);
    }
    return left.axes.size() < 2 ? axis_class_ : left;
  }

 private:
  void add(ir::OpId awaited) {
    std::set<ir::OpId> found = whole_;
    std::vector<ir::OpId> open;
    int64_t bytes = whole_bytes_;
    const auto reach = [&](ir::OpId id) {
      if (!found.insert(id).second) return;
      open.push_back(id);
      bytes += std::max(bytes_[id], int64_t{0});
    };
    reach(awaited);
    while (!open.empty()) {
      const ir::OpId id = open.back();
      open.pop_back();
      if (bytes > axis_class_.bytes / kBeforehand.few) return;
      for (const ir::ValueId input : graph_.op(id).inputs) {
        if (!input.valid()) continue;
        const ir::Value& value = graph_.value(input);
        if (value.producer.valid())
          reach(value.producer);
        else if (value.initial.kind == ir::InitialValue::Kind::kFed && is_float(value.dtype))
          return;
      }
    }
    whole_ = std::move(found);
    whole_bytes_ = bytes;
  }

  const ir::Graph& graph_;
  const AxisClass& axis_class_;
  IdVector<ir::OpId, int64_t> bytes_;  // along the class; -1: not in it
  std::set<ir::OpId> whole_;
  int64_t whole_bytes_ = 0;
};

}  // namespace

bool walks_along(const ops::AxisUse& use) {
  return use.kind != ops::LinkKind::kBroadcast && use.kind != ops::LinkKind::kChosen &&
         use.outermost;
}

Result<std::vector<AxisClass>> axis_classes(const ir::Graph& graph, AxisChoice choice) {
  LT_ASSIGN(std::vector<AxisClass> classes, Classes(graph, choice).run());
  if (choice == AxisChoice::kCoupledToo) return classes;
  for (AxisClass& each : classes) {
    LT_ASSIGN(each, Beforehand(graph, each).run());
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return classes;
}

}  // namespace lowtide::fission
