// Workers do each piece once, whoever asks for it, and never change what it comes to.
#include "base/workers.h"

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

TEST(Workers, WithoutAnyEachPieceIsDoneWhenItIsTaken) {
  for (const int threads : {-1, 0, 1}) {
    Workers workers(threads);
    EXPECT_EQ(workers.count(), 0U);
    int done = 0;
    Ahead<int> piece([&] { return ++done; }), other([&] { return done += 10; });
    workers.turn_to({piece.piece(), other.piece()});
    EXPECT_EQ(done, 0);
    EXPECT_EQ(piece.take(workers), 1);
    EXPECT_FALSE(piece);
    EXPECT_TRUE(other);
  }
}

// A sequence that takes some of what it announced, in another order, and announces again.
TEST(Workers, EachPieceIsDoneAtMostOnceAndComesToTheSame) {
  for (const int threads : {1, 2, 4}) {
    std::vector<std::atomic<int>> done(400);
    Workers workers(threads);
    EXPECT_EQ(workers.count(), static_cast<size_t>(threads - 1));
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
      Workers::Pieces next;
      for (size_t k = rng.below(400); k < 400 && next.size() < 8; ++k)
        if (pieces[k]) next.push_back(pieces[k].piece());
      workers.turn_to(std::move(next));
      const size_t at = rng.below(400);
      if (!pieces[at]) continue;
      int64_t expected = static_cast<int64_t>(at);
      for (int64_t i = 0; i < 1000; ++i) expected += (static_cast<int64_t>(at) * i) % 7;
      EXPECT_EQ(pieces[at].take(workers), expected);
      EXPECT_EQ(done[at], 1);
    }
    for (const std::atomic<int>& times : done) EXPECT_LE(times, 1);
  }
}

TEST(Workers, GoOnWithWhatTheyWereToldLast) {
  std::atomic<int> done = 0;
  Ahead<int> piece([&] { return ++done; });
  Workers workers(2);
  workers.turn_to({piece.piece()});
  while (!piece.piece()->is_done()) std::this_thread::yield();  // without being asked
  EXPECT_EQ(piece.take(workers), 1);
}

TEST(Workers, WhatNobodyHasBegunIsDroppedAtTheEnd) {
  std::atomic<bool> may_end = false;
  std::atomic<int> dropped = 0;
  Ahead<int> slow([&] {
    while (!may_end) std::this_thread::yield();
    return 1;
  });
  Ahead<int> after([&] { return ++dropped; });
  {
    Workers workers(2);
    workers.turn_to({slow.piece(), after.piece()});
    while (!slow.piece()->has_begun()) std::this_thread::yield();
    workers.turn_to({});
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
