#include "order/late.h"

#include <algorithm>

namespace lowtide::order {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LateTuning {
  size_t largest_tree = 16;  // ops; larger trees are rare, and this keeps it linear
};
constexpr LateTuning kLate;

class LateTrees {
 public:
  explicit LateTrees(const OrderGraph& graph)
      : graph_(graph), size_(graph.size(), 0), root_(graph.size()) {}

  // Sizes are made in the given order, roots are chosen against it: the largest tree that is
  // late counts, and an op that roots none is tried as a successor of what is before it.
  IdVector<OpId, OpId> find() {
    for (OpId op : size_.ids()) size_[op] = tree_size(op);
    for (size_t i = graph_.size(); i-- > 0;) {
      const OpId op(i);
      if (size_[op] == 0 || root_[op].valid() || graph_.succs[op].empty()) continue;
      const std::vector<OpId> tree = tree_of(op);
      if (!fits_before_successors(op, excess_of(tree))) continue;
      for (OpId member : tree) root_[member] = op;
    }
    return std::move(root_);
  }

 private:
  // Ops of the tree that ends in `op`; 0 if its ancestors form none, or a large one.
  size_t tree_size(OpId op) const {
    size_t size = 1;
    for (OpId pred : graph_.preds[op]) {
      if (size_[pred] == 0 || graph_.succs[pred].size() > 1) return 0;
      size += size_[pred];
    }
    return size <= kLate.largest_tree ? size : 0;
  }

  std::vector<OpId> tree_of(OpId root) const {
    std::vector<OpId> tree{root};
    for (size_t i = 0; i < tree.size(); ++i)
      for (OpId pred : graph_.preds[tree[i]]) tree.push_back(pred);
    std::sort(tree.begin(), tree.end());
    return tree;
  }

  // The peak of the tree, run from nothing, less what it leaves.
  int64_t excess_of(const std::vector<OpId>& tree) const {
    int64_t live = 0, peak = 0;
    for (OpId op : tree) {
      peak = std::max(peak, live + graph_.transient_bytes[op] - most_reused(op));
      live += graph_.made_bytes[op];
      for (HeldId value : graph_.reads[op]) live -= graph_.held_bytes[value];
    }
    return peak - live;
  }

  // What an op of a tree reads has no other reader, so there it always reuses that much.
  int64_t most_reused(OpId op) const {
    return reuse_bytes(graph_, op, [](HeldId) { return true; });
  }

  bool fits_before_successors(OpId root, int64_t excess) const {
    for (OpId next : graph_.succs[root])
      if (excess > graph_.transient_bytes[next] - most_reused(next)) return false;
    return true;
  }

  const OrderGraph& graph_;
  IdVector<OpId, size_t> size_;
  IdVector<OpId, OpId> root_;
};

}  // namespace

IdVector<OpId, OpId> find_late_roots(const OrderGraph& graph) {
  return LateTrees(graph).find();
}

void mark_late_ops(OrderGraph& graph) {
  const size_t n = graph.size();
  const IdVector<OpId, OpId> roots = find_late_roots(graph);
  graph.late = IdVector<OpId, char>(n, 0);
  std::vector<std::pair<OpId, OpId>> needs, users;
  for (OpId op : roots.ids()) {
    const OpId root = roots[op];
    if (!root.valid()) continue;
    graph.late[op] = 1;
    for (OpId user : graph.succs[root]) {
      needs.emplace_back(user, op);
      users.emplace_back(op, user);
    }
  }
  // Ops of one tree lie together, in the given order.
  std::stable_sort(needs.begin(), needs.end(),
                   [&](const auto& a, const auto& b) { return roots[a.second] < roots[b.second]; });
  graph.late_before = Lists<OpId, OpId>(n, needs);
  graph.late_users = Lists<OpId, OpId>(n, users);
}

}  // namespace lowtide::order
