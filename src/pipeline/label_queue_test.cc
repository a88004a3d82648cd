// A queue by two keys: each entry comes once, in the order of the keys whose turn it is.
#include "pipeline/label_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lowtide::pipeline {
namespace {

TEST(LabelQueueTest, ByOneKeyIsAPriorityQueueInWhichTheFirstOfEqualsComesFirst) {
  LabelQueue<int, int> queue;
  const std::vector<int> keys = {3, 1, 2, 1, 3};
  for (size_t k = 0; k < keys.size(); ++k) queue.push(keys[k], 9, static_cast<int>(k));
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  EXPECT_EQ(order, (std::vector<int>{1, 3, 2, 0, 4}));
}

TEST(LabelQueueTest, ByTwoKeysTakesTheBestOfEachInTurns) {
  LabelQueue<int, char> queue(true);
  queue.push(1, 4, 'a');
  queue.push(2, 3, 'b');
  queue.push(3, 2, 'c');
  queue.push(4, 1, 'd');
  std::vector<char> order;
  while (!queue.empty()) order.push_back(queue.pop());
  EXPECT_EQ(order, (std::vector<char>{'a', 'd', 'b', 'c'}));
}

// Against a list that is searched from end to end.
TEST(LabelQueueTest, RandomPushesAndPopsAgreeWithTheDefinition) {
  Rng rng(7);
  for (int round = 0; round < 50; ++round) {
    LabelQueue<int64_t, size_t> queue(true);
    struct Known {
      int64_t keys[2];
      size_t entry;
    };
    std::vector<Known> known;
    size_t pushed = 0, popped = 0;
    for (int step = 0; step < 60; ++step) {
      if (rng.below(2) == 0 || known.empty()) {
        known.push_back({{rng.between(0, 5), rng.between(0, 5)}, pushed});
        queue.push(known.back().keys[0], known.back().keys[1], pushed++);
        continue;
      }
      const size_t turn = popped++ % 2;
      const auto best =
          std::min_element(known.begin(), known.end(), [&](const Known& a, const Known& b) {
            return std::pair(a.keys[turn], a.entry) < std::pair(b.keys[turn], b.entry);
          });
      const std::vector<size_t*> next = queue.next(3);
      ASSERT_EQ(next.size(), std::min<size_t>(3, known.size()));
      ASSERT_EQ(*next.front(), best->entry);
      ASSERT_EQ(queue.pop(), best->entry);
      known.erase(best);
      ASSERT_EQ(queue.empty(), known.empty());
    }
    // The rest comes as it was foreseen.
    std::vector<size_t> foreseen;
    for (const size_t* entry : queue.next(1000)) foreseen.push_back(*entry);
    EXPECT_EQ(foreseen.size(), known.size());
    for (const size_t entry : foreseen) EXPECT_EQ(queue.pop(), entry);
    EXPECT_TRUE(queue.next(1).empty());
    queue.clear();
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace lowtide::pipeline
