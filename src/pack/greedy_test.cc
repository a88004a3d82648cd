// First fit and best fit against their definitions: of all free places between what coexists, the
// lowest, or the tightest and of those the lowest.
#include "pack/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"

namespace lowtide::pack {
namespace {

constexpr GreedyEnd kNever{std::numeric_limits<int64_t>::max(),
                           std::numeric_limits<int64_t>::max()};

Part random_part(Rng& rng) {
  Part part;
  part.sections = static_cast<int32_t>(rng.between(1, 12));
  const auto range = [&](int32_t& begin, int32_t& end) {
    begin = static_cast<int32_t>(rng.between(0, part.sections - 1));
    end = static_cast<int32_t>(rng.between(begin + 1, part.sections));
  };
  for (int64_t i = rng.between(0, 40); i > 0; --i) {
    Item& item = part.items.emplace_back();
    item.size = rng.between(1, 20);
    item.alignment = int64_t{1} << rng.between(0, 3);
    range(item.begin, item.end);
  }
  for (int64_t i = rng.between(0, 4); i > 0; --i) {
    Obstacle& obstacle = part.obstacles.emplace_back();
    obstacle.low = rng.between(0, 30);
    obstacle.high = obstacle.low + rng.between(1, 12);
    range(obstacle.begin, obstacle.end);
  }
  return part;
}

// Every address from 0 up: taken by something that coexists, or free; runs of free ones are holes.
int64_t place_by_definition(const std::vector<Obstacle>& placed, const Item& item, GreedyFit fit) {
  std::vector<char> taken;
  for (const Obstacle& p : placed) {
    if (p.end <= item.begin || item.end <= p.begin) continue;
    taken.resize(std::max(taken.size(), static_cast<size_t>(p.high)), 0);
    for (int64_t a = p.low; a < p.high; ++a) taken[static_cast<size_t>(a)] = 1;
  }
  int64_t best = align_up(static_cast<int64_t>(taken.size()), item.alignment);
  int64_t best_hole = std::numeric_limits<int64_t>::max();
  for (size_t begin = 0, end = 0; begin < taken.size(); begin = end + 1) {
    for (end = begin; !taken[end];) ++end;
    const auto low = static_cast<int64_t>(begin), high = static_cast<int64_t>(end);
    const int64_t at = align_up(low, item.alignment);
    if (at + item.size > high || (fit == GreedyFit::kBest && high - low >= best_hole)) continue;
    best = at;
    best_hole = high - low;
    if (fit == GreedyFit::kFirst) break;
  }
  return best;
}

TEST(Greedy, PlacesByDefinition) {
  int differ = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const Part part = random_part(rng);
    std::vector<int32_t> list(part.items.size());
    std::iota(list.begin(), list.end(), 0);
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[rng.below(i)]);
    std::vector<std::vector<int64_t>> offsets;
    for (const GreedyFit fit : {GreedyFit::kFirst, GreedyFit::kBest}) {
      const GreedyResult made = pack_greedily(part, list, fit, kNever);
      ASSERT_TRUE(made.complete);
      std::vector<Obstacle> placed = part.obstacles;
      for (const int32_t i : list) {
        const Item& item = part.items[static_cast<size_t>(i)];
        const int64_t at = made.offsets[static_cast<size_t>(i)];
        ASSERT_EQ(at, place_by_definition(placed, item, fit)) << "item " << i;
        placed.push_back({at, at + item.size, item.begin, item.end});
      }
      int64_t height = 0;
      for (const Obstacle& p : placed) height = std::max(height, p.high);
      EXPECT_EQ(made.height, height);
      offsets.push_back(made.offsets);
    }
    differ += offsets[0] != offsets[1];
  }
  EXPECT_GT(differ, 100);
}

TEST(Greedy, EndsAtTheHeightAndWhenTheWorkIsDone) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    Part part = random_part(rng);
    Item more;
    more.size = 3;
    more.end = 1;
    while (part.items.size() < 10) part.items.push_back(more);
    std::vector<int32_t> list(part.items.size());
    std::iota(list.begin(), list.end(), 0);
    const GreedyResult whole = pack_greedily(part, list, GreedyFit::kFirst, kNever);
    GreedyEnd end = kNever;
    end.height = whole.height;
    EXPECT_FALSE(pack_greedily(part, list, GreedyFit::kFirst, end).complete) << seed;
    end.height = whole.height + 1;
    EXPECT_TRUE(pack_greedily(part, list, GreedyFit::kFirst, end).complete) << seed;
    end = kNever;
    end.units = whole.units - 1;
    EXPECT_FALSE(pack_greedily(part, list, GreedyFit::kFirst, end).complete) << seed;
    end.units = whole.units;
    EXPECT_TRUE(pack_greedily(part, list, GreedyFit::kFirst, end).complete) << seed;
  }
}

}  // namespace
}  // namespace lowtide::pack
