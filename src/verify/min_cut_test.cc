#include "verify/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace lowtide::verify {
namespace {

struct Arc {
  size_t from, to;
  int64_t capacity;
};

// The least capacity that leaves any set with node 0 and without the last node.
int64_t least_by_trying(size_t nodes, const std::vector<Arc>& arcs) {
  int64_t least = MinCut::kUnlimited;
  for (uint32_t set = 1; set < 1u << (nodes - 1); set += 2) {
    int64_t leaving = 0;
    for (const Arc& arc : arcs)
      if ((set >> arc.from & 1u) && !(set >> arc.to & 1u)) leaving += arc.capacity;
    least = std::min(least, leaving);
  }
  return least;
}

TEST(MinCutTest, EqualsTryingAllSets) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    const size_t nodes = 2 + rng.below(8);
    std::vector<Arc> arcs;
    MinCut cut(nodes);
    for (uint64_t n = rng.below(30); n > 0; --n) {
      const Arc arc{rng.below(nodes), rng.below(nodes),
                    rng.between(0, seed % 2 ? 5 : int64_t{1} << 40)};
      if (arc.from == arc.to) continue;
      arcs.push_back(arc);
      cut.add_arc(arc.from, arc.to, arc.capacity);
    }
    ASSERT_EQ(cut.run(0, nodes - 1), least_by_trying(nodes, arcs)) << "seed " << seed;
  }
}

TEST(MinCutTest, UnlimitedArcsAreNeverCut) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    const size_t nodes = 3 + rng.below(6);
    std::vector<Arc> arcs;
    MinCut cut(nodes);
    const auto add = [&](size_t from, size_t to, int64_t capacity) {
      arcs.push_back({from, to, capacity});
      cut.add_arc(from, to, capacity);
    };
    for (uint64_t n = rng.below(12); n > 0;
         --n) {  // never into the last node, so that a finite cut exists
      const size_t from = rng.below(nodes - 1), to = rng.below(nodes - 1);
      if (from != to) add(from, to, MinCut::kUnlimited);
    }
    for (uint64_t n = rng.below(12); n > 0; --n) {
      const size_t from = rng.below(nodes), to = rng.below(nodes);
      if (from != to) add(from, to, rng.between(0, 100));
    }
    // Arcs back into the source or out of the sink never count; sets are compared by what leaves
    // them.
    int64_t least = MinCut::kUnlimited;
    for (uint32_t set = 1; set < 1u << (nodes - 1); set += 2) {
      int64_t leaving = 0;
      bool finite = true;
      for (const Arc& arc : arcs) {
        if (!(set >> arc.from & 1u) || (set >> arc.to & 1u)) continue;
        finite &= arc.capacity != MinCut::kUnlimited;
        leaving += finite ? arc.capacity : 0;
      }
      if (finite) least = std::min(least, leaving);
    }
    ASSERT_EQ(cut.run(0, nodes - 1), least) << "seed " << seed;
  }
}

TEST(MinCutTest, NoFiniteCutIsSaidSo) {
  MinCut cut(3);
  cut.add_arc(0, 1, MinCut::kUnlimited);
  cut.add_arc(1, 2, MinCut::kUnlimited);
  EXPECT_GE(cut.run(0, 2), MinCut::kUnlimited);
}

}  // namespace
}  // namespace lowtide::verify
