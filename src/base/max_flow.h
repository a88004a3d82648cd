// Maximum flow and minimum cut by Dinic's algorithm (1970): levels by breadth-first search, then a
// blocking flow by depth-first search that remembers, per node, the first arc not yet found
// useless. O(nodes^2 arcs); on sparse, shallow networks, as the bounds of order and remat make
// them, a few passes over the arcs, which run() lays out by node for that. Iterative: networks can
// be as deep as a model is long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lowtide {

class MaxFlow {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit MaxFlow(size_t nodes) : nodes_(nodes) {}

  // Without arcs, for another network in the same memory, of so many or any number of arcs;
  // arcs_seen() goes on.
  void reset(size_t nodes, size_t arcs = 0) {
    nodes_ = nodes;
    added_.clear();
    added_.reserve(arcs);
  }
  size_t add_node() { return nodes_++; }
  // Capacity >= 0. The finite capacities together must stay below 2^63.
  void add_arc(size_t from, size_t to, int64_t capacity);

  // The value of a maximum flow. There must be no path of unlimited arcs.
  int64_t run(size_t source, size_t sink);
  // After run(): whether the node lies on the source's side of the smallest minimum cut.
  bool source_side(size_t node) const { return level_[node] >= 0; }
  // Arcs looked at so far: the work done, for budgets.
  int64_t arcs_seen() const { return arcs_seen_; }

 private:
  struct Added {
    uint32_t from, to;
    int64_t capacity;
  };
  struct Arc {
    int64_t residual;
    uint32_t to;
    uint32_t back;  // its reverse
  };

  void lay_out();
  bool make_levels(size_t source, size_t sink);
  int64_t push_one_path(size_t source, size_t sink);

  size_t nodes_;
  std::vector<Added> added_;
  std::vector<uint32_t> first_;  // of each node's arcs, which end where the next node's begin
  std::vector<Arc> arcs_;        // of a node those that were added last come first
  std::vector<int32_t> level_;   // -1: not reached
  std::vector<uint32_t> queue_, current_;
  std::vector<uint32_t> path_;  // of arcs that all can carry more, from the source
  int64_t arcs_seen_ = 0;
};

}  // namespace lowtide
