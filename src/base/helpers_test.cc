// Helpers do each piece once, whoever asks for it, and never change what it comes to.
#include "base/helpers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/shared_set.h"

namespace lowtide {
namespace {

TEST(Helpers, WithoutAnyEachPieceIsDoneWhenItIsTaken) {
  for (const int threads : {-1, 0, 1}) {
    Helpers helpers(threads);
    EXPECT_EQ(helpers.count(), 0U);
    int done = 0;
    Ahead<int> piece([&] { return ++done; }), other([&] { return done += 10; });
    helpers.turn_to({piece.piece(), other.piece()});
    EXPECT_EQ(done, 0);
    EXPECT_EQ(piece.take(helpers), 1);
    EXPECT_FALSE(piece);
    EXPECT_TRUE(other);
  }
}

// A sequence that takes some of what it announced, in another order, and announces again.
TEST(Helpers, EachPieceIsDoneAtMostOnceAndComesToTheSame) {
  for (const int threads : {1, 2, 4}) {
    std::vector<std::atomic<int>> done(400);
    Helpers helpers(threads);
    EXPECT_EQ(helpers.count(), static_cast<size_t>(threads - 1));
    std::vector<Ahead<int64_t>> pieces;
    for (int64_t k = 0; k < 400; ++k)
      pieces.emplace_back([k, &done] {
        ++done[static_cast<size_t>(k)];
        int64_t sum = 0;
        for (int64_t i = 0; i < 1000; ++i) sum += (k * i) % 7;
        return sum + k;
      });
    Rng rng(11);
    for (int step = 0; step < 300; ++step) {
      Helpers::Pieces next;
      for (size_t k = rng.below(400); k < 400 && next.size() < 8; ++k)
        if (pieces[k]) next.push_back(pieces[k].piece());
      helpers.turn_to(std::move(next));
      const size_t at = rng.below(400);
      if (!pieces[at]) continue;
      int64_t expected = static_cast<int64_t>(at);
      for (int64_t i = 0; i < 1000; ++i) expected += (static_cast<int64_t>(at) * i) % 7;
      EXPECT_EQ(pieces[at].take(helpers), expected);
      EXPECT_EQ(done[at], 1);
    }
    for (const std::atomic<int>& times : done) EXPECT_LE(times, 1);
  }
}

TEST(Helpers, GoOnWithWhatTheyWereToldLast) {
  std::atomic<int> done = 0;
  Ahead<int> piece([&] { return ++done; });
  Helpers helpers(2);
  helpers.turn_to({piece.piece()});
  while (!piece.piece()->is_done()) std::this_thread::yield();  // without being asked
  EXPECT_EQ(piece.take(helpers), 1);
}

TEST(Helpers, WhatNobodyHasBegunIsDroppedAtTheEnd) {
  std::atomic<bool> may_end = false;
  std::atomic<int> dropped = 0;
  Ahead<int> slow([&] {
    while (!may_end) std::this_thread::yield();
    return 1;
  });
  Ahead<int> after([&] { return ++dropped; });
  {
    Helpers helpers(2);
    helpers.turn_to({slow.piece(), after.piece()});
    while (!slow.piece()->has_begun()) std::this_thread::yield();
    helpers.turn_to({});
    may_end = true;
  }
  EXPECT_TRUE(slow.piece()->is_done());
  EXPECT_EQ(dropped, 0);
}

TEST(SharedSet, EachOfThoseThatManyAddIsNewOnce) {
  SharedSet<int> set;
  std::atomic<int> added = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        added += set.insert(k) ? 1 : 0;
        EXPECT_TRUE(set.contains(k));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(added, 500);
  EXPECT_FALSE(set.contains(500));
}

}  // namespace
}  // namespace lowtide
