#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/rng.h"
#include "ops/row.h"
#include "ops/testing/random_instance.h"

namespace lowtide::ops {
namespace {

// The outputs that some part of drawn instances adds into. A mean's parts are weighted first.
std::set<int> summed_outputs(std::string_view kind) {
  std::set<int> summed;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed * 613 + 5);
    const auto made = random_instance(kind, rng);
    EXPECT_TRUE(made) << made.error().message;
    const auto map = axis_map(made->instance());
    if (!map || !accumulators(made->instance()).empty()) continue;
    for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
      const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
      if (!can_split(*map, axis) || extent < 1) continue;
      const auto first = part(made->instance(), axis, 0, (extent + 1) / 2);
      if (!first) continue;
      for (size_t o = 0; o < first->merges.size(); ++o)
        if (first->merges[o] == Merge::kSum) summed.insert(static_cast<int>(o));
    }
  }
  return summed;
}

// A row says of every output that parts add into that it may be added into, and of no other.
TEST(Accumulators, AreOfferedForEverySum) {
  int offered = 0;
  for (const std::string_view kind : kinds()) {
    const Row& row = *find(kind);
    if (row.mean) {
      EXPECT_TRUE(row.adds_into.empty()) << kind << ": means do not add up";
      continue;
    }
    const std::vector<int>& listed = words_of_row(row).adds_into;
    EXPECT_EQ(std::set<int>(listed.begin(), listed.end()), summed_outputs(kind)) << kind;
    offered += static_cast<int>(listed.size());
  }
  std::printf("outputs that may be added into: %d\n", offered);
  EXPECT_EQ(offered, 24);
}

}  // namespace
}  // namespace lowtide::ops
