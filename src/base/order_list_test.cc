// The order list against a plain array.
#include "base/order_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lowtide {
namespace {

std::vector<uint32_t> items_of(const OrderList& list) {
  std::vector<uint32_t> items;
  for (uint32_t i = list.first(); i != OrderList::kNone; i = list.next(i)) items.push_back(i);
  return items;
}

void expect_is(const OrderList& list, const std::vector<uint32_t>& wanted) {
  ASSERT_EQ(items_of(list), wanted);
  for (size_t i = 0; i + 1 < wanted.size(); ++i) {
    EXPECT_TRUE(list.before(wanted[i], wanted[i + 1]));
    EXPECT_FALSE(list.before(wanted[i + 1], wanted[i]));
    EXPECT_EQ(list.previous(wanted[i + 1]), wanted[i]);
  }
  EXPECT_EQ(list.last(), wanted.empty() ? OrderList::kNone : wanted.back());
}

TEST(OrderList, InsertsAtBothEndsAndBetween) {
  OrderList list;
  expect_is(list, {});
  list.push_back(3);
  list.push_back(1);
  list.insert_after(0, OrderList::kNone);
  list.insert_after(7, 3);
  expect_is(list, {0, 3, 7, 1});
  EXPECT_FALSE(list.contains(2));
  EXPECT_FALSE(list.contains(100));
  list.erase(0);
  list.erase(1);
  expect_is(list, {3, 7});
  list.push_back(0);
  expect_is(list, {3, 7, 0});
}

// All at one place: the labels there run out again and again.
TEST(OrderList, MakesRoomWhereAllIsInserted) {
  OrderList front, behind_first;
  std::vector<uint32_t> in_front, behind{0};
  behind_first.push_back(0);
  for (uint32_t i = 0; i < 5000; ++i) {
    front.insert_after(i, OrderList::kNone);
    in_front.insert(in_front.begin(), i);
    behind_first.insert_after(i + 1, 0);
    behind.insert(behind.begin() + 1, i + 1);
  }
  expect_is(front, in_front);
  expect_is(behind_first, behind);
}

TEST(OrderList, IsTheArrayAfterRandomChanges) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    OrderList list;
    std::vector<uint32_t> wanted;
    const uint64_t hot = rng.below(4);  // most insertions go here
    for (int step = 0; step < 3000; ++step) {
      const auto item = static_cast<uint32_t>(rng.below(2000));
      const auto found = std::find(wanted.begin(), wanted.end(), item);
      ASSERT_EQ(list.contains(item), found != wanted.end());
      if (found != wanted.end()) {
        list.erase(item);
        wanted.erase(found);
        continue;
      }
      const size_t place =
          std::min<size_t>(wanted.size(), rng.below(3) == 0 ? rng.below(wanted.size() + 1) : hot);
      list.insert_after(item, place == 0 ? OrderList::kNone : wanted[place - 1]);
      wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(place), item);
    }
    expect_is(list, wanted);
  }
}

}  // namespace
}  // namespace lowtide
