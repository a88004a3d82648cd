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

// Axes of ops, and which of them are one (union-find). A component has its members as a ring, and
// never two axes of one op.
class Components {
 public:
  struct Node {
    ir::OpId op;
    int axis = 0;
    int64_t extent = 0, bytes = 0;
    bool padded = false;
    size_t parent = 0, next = 0, members = 1;  // members: of a root
  };

  explicit Components(size_t ops) : first_of_(ops, 0) {}

  // Nodes that are added from here on are of this op, each op once.
  void begin(ir::OpId op) { first_of_[op] = nodes_.size(); }
  // The one that is there, or a new one.
  size_t add(ir::OpId op, int axis, int64_t extent) {
    for (size_t node = first_of_[op]; node < nodes_.size(); ++node)
      if (nodes_[node].axis == axis) return node;
    const size_t node = nodes_.size();
    nodes_.push_back({.op = op, .axis = axis, .extent = extent, .parent = node, .next = node});
    return node;
  }
  size_t root(size_t node) {
    while (nodes_[node].parent != node)
      node = nodes_[node].parent = nodes_[nodes_[node].parent].parent;
    return node;
  }
  // Unless an op would have two axes in one.
  void join(size_t one, size_t other) {
    one = root(one), other = root(other);
    if (one == other) return;
    if (nodes_[one].members < nodes_[other].members) std::swap(one, other);
    size_t node = other;
    do {
      if (has_axis_of(one, nodes_[node].op)) return;
      node = nodes_[node].next;
    } while (node != other);
    std::swap(nodes_[one].next, nodes_[other].next);
    nodes_[one].members += nodes_[other].members;
    nodes_[other].parent = one;
  }

  Node& operator[](size_t node) { return nodes_[node]; }
  size_t size() const { return nodes_.size(); }
  // Of a root.
  std::vector<size_t> members(size_t root) const {
    std::vector<size_t> all = {root};
    for (size_t node = nodes_[root].next; node != root; node = nodes_[node].next)
      all.push_back(node);
    return all;
  }

 private:
  bool has_axis_of(size_t component, ir::OpId op) {
    for (size_t node = first_of_[op]; node < nodes_.size() && nodes_[node].op == op; ++node)
      if (root(node) == component) return true;
    return false;
  }

  std::vector<Node> nodes_;
  IdVector<ir::OpId, size_t> first_of_;
};

class Classes {
 public:
  Classes(const ir::Graph& graph, const IdVector<ir::OpId, ops::AxisMap>& maps, AxisChoice choice)
      : graph_(graph),
        also_coupled_(choice == AxisChoice::kCoupledToo),
        components_(graph.op_count()) {
    for (const ir::OpId id : graph.ops()) add_op(id, maps[id]);
    join_through_values();
  }

  std::vector<AxisClass> made() {
    std::vector<size_t> roots;
    for (size_t node = 0; node < components_.size(); ++node)
      if (components_.root(node) == node && components_[node].members > 1) roots.push_back(node);
    const auto by_op = [this](size_t a, size_t b) { return axis_of(a) < axis_of(b); };
    std::sort(roots.begin(), roots.end(), by_op);
    std::vector<AxisClass> all;
    for (const size_t root : roots) {
      std::vector<size_t> members = components_.members(root);
      std::sort(members.begin(), members.end(), by_op);
      all.push_back(class_of(members));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return all;
  }

 private:
  // An axis of an op that walks a dimension of a value.
  struct Walk {
    ir::ValueId value;
    int dim;
    size_t node;
    bool makes;
  };

  std::pair<ir::OpId, int> axis_of(size_t node) {
    return {components_[node].op, components_[node].axis};
  }

  AxisClass class_of(const std::vector<size_t>& members) {
    AxisClass made;
    made.least_extent = std::numeric_limits<int64_t>::max();
    for (const size_t member : members) {
      const Components::Node& node = components_[member];
      made.axes.push_back({node.op, node.axis, node.extent, node.bytes, node.padded});
      made.bytes += node.bytes;
      made.least_extent = std::min(made.least_extent, node.extent);
    }
    return made;
  }

  void add_op(ir::OpId id, const ops::AxisMap& map) {
    const ir::Op& op = graph_.op(id);
    components_.begin(id);
    for (const ops::AxisUse& use : map.uses) {
      if (!may_be_member(map, use)) continue;
      const auto& operands = use.is_output ? op.outputs : op.inputs;
      const auto at = static_cast<size_t>(use.operand);
      const auto extent = map.axes[static_cast<size_t>(use.axis)].extent.constant();
      if (at >= operands.size() || !operands[at].valid() || !extent || *extent < 2) continue;
      const size_t node = components_.add(id, use.axis, *extent);
      if (use.kind == ops::LinkKind::kWindow || use.kind == ops::LinkKind::kShift)
        components_[node].padded = true;
      walks_.push_back({operands[at], use.dim, node, use.is_output});
      if (use.is_output) components_[node].bytes += bytes_of(operands[at]);
    }
  }

  bool may_be_member(const ops::AxisMap& map, const ops::AxisUse& use) const {
    if (!also_coupled_) return walks_along(use) && ops::can_split(map, use.axis);
    return use.axis >= 0 && (walks_along(use) || use.kind == ops::LinkKind::kChosen);
  }

  int64_t bytes_of(ir::ValueId value) const {
    return *ir::size_bytes(graph_.value(value)).constant();
  }

  // Those who walk a dimension of a value are linked with who makes it, the largest values first.
  void join_through_values() {
    std::vector<std::tuple<int64_t, ir::ValueId, int, size_t>> by_bytes;
    by_bytes.reserve(walks_.size());
    ir::ValueId last;
    int64_t bytes = 0;
    for (size_t k = 0; k < walks_.size(); ++k) {
      if (walks_[k].value != last) bytes = bytes_of(last = walks_[k].value);
      by_bytes.emplace_back(-bytes, last, walks_[k].dim, k);
    }
    std::sort(by_bytes.begin(), by_bytes.end());
    const auto walk = [&](size_t k) -> const Walk& { return walks_[std::get<3>(by_bytes[k])]; };
    for (size_t begin = 0, end = 0; begin < by_bytes.size(); begin = end) {
      size_t maker = by_bytes.size();
      for (end = begin; end < by_bytes.size() && walk(end).value == walk(begin).value &&
                        walk(end).dim == walk(begin).dim;
           ++end)
        if (walk(end).makes) maker = std::min(maker, end);
      const size_t first = walk(maker < end ? maker : begin).node;
      for (size_t k = begin; k < end; ++k) components_.join(first, walk(k).node);
    }
  }

  const ir::Graph& graph_;
  const bool also_coupled_;
  Components components_;
  std::vector<Walk> walks_;
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

  AxisClass without(const std::set<ir::OpId>& all_awaited) {
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

Result<IdVector<ir::OpId, ops::AxisMap>> axis_maps(const ir::Graph& graph) {
  IdVector<ir::OpId, ops::AxisMap> maps(graph.op_count());
  for (const ir::OpId id : graph.ops()) {
    if (overwrites(graph, id)) continue;
    LT_ASSIGN(maps[id], ops::axis_map(ops::instance_of(graph, id)));
  }
  return maps;
}

Result<std::vector<AxisClass>> axis_classes(const ir::Graph& graph, AxisChoice choice) {
  LT_ASSIGN(const auto maps, axis_maps(graph));
  std::vector<AxisClass> classes = Classes(graph, maps, choice).made();
  if (choice == AxisChoice::kCoupledToo) return classes;
  for (AxisClass& each : classes) {
    const std::set<ir::OpId> awaited = awaited_of(graph, each, maps);
    if (!awaited.empty()) each = Beforehand(graph, each).without(awaited);
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return classes;
}

Result<bool> walks_samples(const ir::Graph& graph, const AxisClass& axis_class) {
  const auto is_fed = [&](ir::ValueId id) {
    return id.valid() && !graph.value(id).producer.valid() &&
           graph.value(id).initial.kind == ir::InitialValue::Kind::kFed;
  };
  for (const ClassAxis& member : axis_class.axes) {
    const std::vector<ir::ValueId>& inputs = graph.op(member.op).inputs;
    if (std::none_of(inputs.begin(), inputs.end(), is_fed)) continue;
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph, member.op)));
    for (const ops::AxisUse& use : map.uses)
      if (!use.is_output && use.axis == member.axis && use.dim == 0 && walks_along(use) &&
          is_fed(inputs[static_cast<size_t>(use.operand)]))
        return true;
  }
  return false;
}

}  // namespace lowtide::fission
