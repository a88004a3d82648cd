// Maximum flow and minimum cut by Dinic's algorithm (1970): levels by breadth-first search, then a
// blocking flow by depth-first search that remembers, per node, the first arc not yet found
// useless. O(nodes^2 arcs); on sparse, shallow networks, as the bounds of order and remat make
// them, a few passes over the arcs. Iterative: networks can be as deep as a model is long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lowtide {

class MaxFlow {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit MaxFlow(size_t nodes) : first_(nodes, kNoArc) {}

  size_t add_node();
  // Capacity >= 0. The finite capacities together must stay below 2^63.
  void add_arc(size_t from, size_t to, int64_t capacity);

  // The value of a maximum flow; call once. There must be no path of unlimited arcs.
  int64_t run(size_t source, size_t sink);
  // After run(): whether the node lies on the source's side of the smallest minimum cut.
  bool source_side(size_t node) const { return level_[node] >= 0; }
  // Arcs looked at so far: the work done, for budgets.
  int64_t arcs_seen() const { return arcs_seen_; }

 private:
  static constexpr uint32_t kNoArc = std::numeric_limits<uint32_t>::max();
  struct Arc {
    uint32_t to;
    uint32_t next;     // of the same node
    int64_t residual;  // arc i ^ 1 is the reverse of arc i
  };

  bool make_levels(size_t source, size_t sink);
  int64_t push_one_path(size_t source, size_t sink);

  std::vector<uint32_t> first_;
  std::vector<Arc> arcs_;
  std::vector<int32_t> level_;  // -1: not reached
  std::vector<uint32_t> current_;
  std::vector<uint32_t> path_;  // of arcs that all can carry more, from the source
  int64_t arcs_seen_ = 0;
};

}  // namespace lowtide
