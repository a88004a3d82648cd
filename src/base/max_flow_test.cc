// Maximum flow against the minimum over all cuts, on small random networks.
#include "base/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lowtide {
namespace {

struct TestArc {
  size_t from, to;
  int64_t capacity;
};

int64_t cut_bytes(const std::vector<TestArc>& arcs, uint32_t source_side) {
  int64_t sum = 0;
  for (const TestArc& arc : arcs)
    if ((source_side >> arc.from & 1) && !(source_side >> arc.to & 1)) {
      if (arc.capacity == MaxFlow::kUnlimited) return MaxFlow::kUnlimited;
      sum += arc.capacity;
    }
  return sum;
}

TEST(MaxFlow, EqualsTheSmallestCutAndFindsIt) {
  Rng rng(17);
  MaxFlow flow(2);  // one after another in the same memory
  for (int i = 0; i < 5000; ++i) {
    const size_t nodes = 2 + rng.below(7);
    std::vector<TestArc> arcs;
    for (uint64_t k = rng.below(20); k > 0; --k) {
      const size_t from = rng.below(nodes), to = rng.below(nodes);
      const bool unlimited = rng.below(5) == 0 && from != 0 && to != 1;
      if (from != to)
        arcs.push_back({from, to, unlimited ? MaxFlow::kUnlimited : rng.between(0, 9)});
    }
    int64_t least = MaxFlow::kUnlimited;
    uint32_t smallest = ~0u;
    for (uint32_t set = 0; set < 1u << nodes; ++set) {
      if (!(set & 1) || (set & 2)) continue;  // node 0 is the source, node 1 the sink
      const int64_t bytes = cut_bytes(arcs, set);
      if (bytes < least) smallest = ~0u;
      least = std::min(least, bytes);
      if (bytes == least) smallest &= set;  // minimum cuts are closed under intersection
    }
    flow.reset(2);
    for (size_t node = 2; node < nodes; ++node) EXPECT_EQ(flow.add_node(), node);
    for (const TestArc& arc : arcs) flow.add_arc(arc.from, arc.to, arc.capacity);
    ASSERT_EQ(flow.run(0, 1), least) << "network " << i;
    for (size_t node = 0; node < nodes; ++node)
      EXPECT_EQ(flow.source_side(node), (smallest >> node & 1) != 0) << "network " << i;
  }
}

TEST(MaxFlow, CarriesLargeCapacitiesThroughUnlimitedArcs) {
  MaxFlow flow(4);
  constexpr int64_t kLarge = int64_t{1} << 62;
  flow.add_arc(0, 2, kLarge - 5);
  flow.add_arc(2, 3, MaxFlow::kUnlimited);
  flow.add_arc(3, 2, MaxFlow::kUnlimited);
  flow.add_arc(3, 1, kLarge - 1);
  EXPECT_EQ(flow.run(0, 1), kLarge - 5);
}

TEST(MaxFlow, NoPathIsNoFlow) {
  MaxFlow flow(3);
  flow.add_arc(0, 2, 9);
  EXPECT_EQ(flow.run(0, 1), 0);
  EXPECT_TRUE(flow.source_side(2));
}

}  // namespace
}  // namespace lowtide
