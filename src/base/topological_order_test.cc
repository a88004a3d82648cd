// The topological sort against its definition, on random graphs with and without cycles.
#include "base/topological_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lowtide {
namespace {

struct NodeTag;
using Node = Id<NodeTag>;
using Before = IdVector<Node, std::vector<Node>>;

// Again and again the least by (rank, id) of all whose predecessors are placed.
std::vector<Node> by_definition(const Before& before, const std::vector<int>& rank) {
  std::vector<Node> order;
  const auto placed = [&](Node id) {
    return std::find(order.begin(), order.end(), id) != order.end();
  };
  while (true) {
    Node best;
    for (const Node id : before.ids()) {
      const auto& first = before[id];
      if (placed(id) || !std::all_of(first.begin(), first.end(), placed)) continue;
      if (!best.valid() || rank[id.index()] < rank[best.index()]) best = id;
    }
    if (!best.valid()) return order;
    order.push_back(best);
  }
}

TEST(TopologicalOrder, IsTheOneOfItsDefinition) {
  int cycles = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    const auto n = static_cast<size_t>(rng.between(0, 9));
    Before before(n);
    std::vector<int> rank(n);
    for (const Node id : before.ids()) {
      rank[id.index()] = static_cast<int>(rng.below(3));
      for (const Node other : before.ids())
        if (rng.below(6) == 0) before[id].insert(before[id].end(), 1 + rng.below(2), other);
    }
    const auto order = topological_order(before, [&](Node id) { return rank[id.index()]; });
    EXPECT_EQ(order, by_definition(before, rank)) << "seed " << seed;
    EXPECT_EQ(topological_order(before), by_definition(before, std::vector<int>(n, 0)));
    cycles += order.size() < n ? 1 : 0;
  }
  EXPECT_GT(cycles, 100);
  EXPECT_LT(cycles, 450);
}

TEST(TopologicalOrder, KeepsAGivenOrderThatIsValid) {
  Before chain(4);
  for (size_t i = 2; i < 4; ++i) chain[Node(i)] = {Node(i - 2), Node(i - 2)};
  EXPECT_EQ(topological_order(chain), (std::vector<Node>{Node(0), Node(1), Node(2), Node(3)}));
}

}  // namespace
}  // namespace lowtide
