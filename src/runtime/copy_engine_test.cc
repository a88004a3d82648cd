// The copy engine: order within and across directions, failures at every byte, timing, restart,
// closing in the middle. Run it with -fsanitize=thread too.
#include "runtime/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

namespace lowtide::runtime {
namespace {

// Memory that fails once it was asked for more than `limit` bytes in one direction, after a part of
// them, like a disk that fills up.
class FailingTier final : public SlowTier {
 public:
  explicit FailingTier(int64_t bytes) : contents(static_cast<size_t>(bytes)) {}
  int64_t bytes() const override { return static_cast<int64_t>(contents.size()); }
  const std::string& described() const override { return described_; }
  Moved write(int64_t at, std::span<const std::byte> from) override {
    places.push_back(at);
    const Moved moved = admit(write_limit, written, from.size(), ENOSPC);
    std::memcpy(contents.data() + at, from.data(), static_cast<size_t>(moved.bytes));
    return moved;
  }
  Moved read(int64_t at, std::span<std::byte> to) override {
    const Moved moved = admit(read_limit, read_bytes, to.size(), EIO);
    std::memcpy(to.data(), contents.data() + at, static_cast<size_t>(moved.bytes));
    return moved;
  }

  std::vector<std::byte> contents;
  int64_t write_limit = INT64_MAX, read_limit = INT64_MAX;
  std::atomic<int64_t> written{0}, read_bytes{0};
  std::vector<int64_t> places;  // of writes; to read when none is under way

 private:
  static Moved admit(int64_t limit, std::atomic<int64_t>& so_far, size_t bytes, int reason) {
    const int64_t wanted = static_cast<int64_t>(bytes);
    const int64_t granted = std::clamp<int64_t>(limit - so_far, 0, wanted);
    so_far += granted;
    return {.bytes = granted, .error_number = granted < wanted ? reason : 0};
  }
  std::string described_ = "the tier";
};

std::unique_ptr<CopyEngine> engine_on(SlowTier& tier, size_t capacity, Throttle throttle = {}) {
  auto engine = CopyEngine::make(tier, capacity, throttle);
  EXPECT_TRUE(engine.has_value());
  return std::move(*engine);
}

std::vector<std::byte> filled(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& b : made) b = static_cast<std::byte>(random());
  return made;
}

TEST(CopyEngine, StoresAndLoads) {
  const size_t bytes = 3 * CopyEngine::kChunkBytes + 77;
  FailingTier tier(2 * static_cast<int64_t>(bytes));
  auto engine = engine_on(tier, 4);
  const auto a = filled(bytes, 1), b = filled(bytes, 2);
  auto memory_a = a, memory_b = b;
  const auto length = static_cast<int64_t>(bytes);
  const auto first = engine->begin_store({memory_a.data(), 0, length, "a"});
  const auto second = engine->begin_store({memory_b.data(), length, length, "b"});
  ASSERT_TRUE(engine->wait(second));
  ASSERT_TRUE(engine->wait(first));
  std::swap(memory_a, memory_b);
  engine->begin_load({memory_a.data(), 0, length, "a"});
  engine->begin_load({memory_b.data(), length, length, "b"});
  ASSERT_TRUE(engine->wait_all());
  EXPECT_EQ(memory_a, a);
  EXPECT_EQ(memory_b, b);
  const TransferTotals totals = engine->totals();
  EXPECT_EQ(totals.stored_bytes, 2 * length);
  EXPECT_EQ(totals.loaded_bytes, 2 * length);
  EXPECT_GT(totals.transfer_seconds, 0);
}

TEST(CopyEngine, ALoadGetsWhatItsOwnStoreLeft) {
  // The store is slow and the queue of loads is empty: a load that did not wait would be first.
  FailingTier tier(1 << 20);
  auto engine = engine_on(tier, 64, {.bytes_per_second = 1 << 26, .latency_seconds = 1e-3});
  for (uint64_t round = 0; round < 5; ++round) {
    engine->restart();
    auto from = filled(1 << 18, round);
    std::vector<std::byte> to(1 << 18);
    engine->begin_store({from.data(), 4096, 1 << 18, "s"});
    ASSERT_TRUE(engine->wait(engine->begin_load({to.data(), 4096, 1 << 18, "s"})));
    EXPECT_EQ(to, from);
  }
}

TEST(CopyEngine, AStoreDoesNotOvertakeALoadOfItsSlot) {
  FailingTier tier(1 << 20);
  const auto old = filled(1 << 20, 9);
  tier.contents = old;
  auto engine = engine_on(tier, 8, {.bytes_per_second = 1 << 26});
  std::vector<std::byte> first(1 << 18), to(1 << 18);
  auto fresh = filled(1 << 18, 10);
  engine->begin_load({first.data(), 1 << 19, 1 << 18, "other"});
  engine->begin_load({to.data(), 0, 1 << 18, "s"});
  engine->begin_store({fresh.data(), 1 << 17, 1 << 18, "s2"});  // half of the slot before
  ASSERT_TRUE(engine->wait_all());
  EXPECT_TRUE(std::equal(to.begin(), to.end(), old.begin()));
  EXPECT_TRUE(std::equal(fresh.begin(), fresh.end(), tier.contents.begin() + (1 << 17)));
}

// Stores and loads of random slots, held against the same done one after another.
TEST(CopyEngine, RandomTransfersEndAsIfDoneOneByOne) {
  constexpr int kSlots = 12, kTransfers = 200;
  constexpr int64_t kSlotBytes = 4096;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    FailingTier tier(kSlots * kSlotBytes);
    auto engine = engine_on(tier, kTransfers);
    auto slots = tier.contents;
    // Each transfer has memory of its own, so that only slots order them.
    auto arena = filled(kTransfers * kSlotBytes, seed), expected = arena;
    for (int i = 0; i < kTransfers; ++i) {
      const auto slot = static_cast<int64_t>(random() % (2 * kSlots - 1)) * kSlotBytes / 2;
      const auto at = static_cast<size_t>(i) * kSlotBytes;
      const Transfer transfer{arena.data() + at, slot, kSlotBytes, "s"};
      if (random() % 2 == 0) {
        std::memcpy(slots.data() + slot, expected.data() + at, kSlotBytes);
        engine->begin_store(transfer);
      } else {
        std::memcpy(expected.data() + at, slots.data() + slot, kSlotBytes);
        engine->begin_load(transfer);
      }
    }
    ASSERT_TRUE(engine->wait_all());
    EXPECT_EQ(tier.contents, slots);
    EXPECT_EQ(arena, expected);
  }
}

TEST(CopyEngine, AFailureAtAnyByteEndsItWithOneLine) {
  for (const int64_t limit : {0, 1, 4095, 4096, 4097, 8191}) {
    FailingTier tier(3 * 4096);
    tier.write_limit = limit;
    auto engine = engine_on(tier, 8);
    auto data = filled(3 * 4096, 3);
    for (int64_t s = 0; s < 3; ++s)
      engine->begin_store({data.data() + s * 4096, s * 4096, 4096, s == 0 ? "a" : "b"});
    std::vector<std::byte> back(4096, std::byte{5});
    engine->begin_load({back.data(), 2 * 4096, 4096, "c"});  // behind the third store, left out
    const Status status = engine->wait_all();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message, "the tier: only " + std::to_string(limit % 4096) +
                                          " of 4096 bytes of '" + (limit < 4096 ? "a" : "b") +
                                          "' could be stored: No space left on device");
    const auto torn = engine->torn_store();
    ASSERT_TRUE(torn.has_value());
    EXPECT_EQ(torn->slot, limit / 4096 * 4096);
    EXPECT_EQ(torn->memory, data.data() + torn->slot);
    EXPECT_EQ(back, std::vector<std::byte>(4096, std::byte{5}));
    EXPECT_EQ(tier.written, limit) << "nothing is stored after a failure";
  }
}

TEST(CopyEngine, AFailedLoadTearsNoSlotAndLaterStepsFailToo) {
  FailingTier tier(2 * 4096);
  tier.read_limit = 100;
  auto engine = engine_on(tier, 2);
  std::vector<std::byte> to(4096);
  const Status status = engine->wait(engine->begin_load({to.data(), 0, 4096, "layer.weight"}));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            "the tier: only 100 of 4096 bytes of 'layer.weight' could be loaded: Input/output "
            "error");
  EXPECT_FALSE(engine->torn_store().has_value());
  engine->restart();
  const Status later = engine->wait(engine->begin_store({to.data(), 4096, 4096, "b"}));
  ASSERT_FALSE(later.has_value());
  EXPECT_EQ(later.error().message, status.error().message);
  EXPECT_EQ(tier.written, 0);
}

TEST(CopyEngine, AThrottleSetsThePaceAndWaitsAreMeasured) {
  FailingTier tier(1 << 20);
  auto engine = engine_on(tier, 4, {.bytes_per_second = 1 << 24, .latency_seconds = 5e-3});
  std::vector<std::byte> memory(1 << 19);
  const auto start = CopyClock::now();
  engine->begin_store({memory.data(), 0, 1 << 18, "a"});
  engine->begin_store({memory.data() + (1 << 18), 1 << 18, 1 << 18, "b"});
  const double before = std::chrono::duration<double>(CopyClock::now() - start).count();
  ASSERT_TRUE(engine->wait_all());
  const double took = std::chrono::duration<double>(CopyClock::now() - start).count();
  const double least = 2 * (5e-3 + 1.0 / 64);
  EXPECT_GE(took, least);
  const TransferTotals totals = engine->totals();
  EXPECT_GE(totals.transfer_seconds, 0.9 * least);
  EXPECT_GE(totals.exposed_seconds, 0.9 * (least - before)) << "nothing else was done meanwhile";
  EXPECT_LE(totals.exposed_seconds, took);
  ASSERT_FALSE(tier.places.empty());
  EXPECT_EQ(tier.places.front(), 0);
  EXPECT_TRUE(std::is_sorted(tier.places.begin(), tier.places.end()))
      << "in the order of the calls";
}

TEST(CopyEngine, ATransferHiddenBehindOtherWorkIsNotExposed) {
  FailingTier tier(1 << 20);
  auto engine = engine_on(tier, 4, {.latency_seconds = 0.1});
  std::vector<std::byte> memory(1 << 10);
  const auto id = engine->begin_store({memory.data(), 0, 1 << 10, "a"});
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  ASSERT_TRUE(engine->wait(id));
  EXPECT_GE(engine->totals().transfer_seconds, 0.09);
  EXPECT_LT(engine->totals().exposed_seconds, 0.05);
}

TEST(CopyEngine, ClosesInTheMiddleOfASlowTransfer) {
  FailingTier tier(1 << 24);
  std::vector<std::byte> memory(1 << 24), more(1 << 24);
  const auto start = CopyClock::now();
  {
    auto engine = engine_on(tier, 4, {.bytes_per_second = 1000});  // hours
    engine->begin_store({memory.data(), 0, 1 << 24, "a"});
    engine->begin_load({more.data(), 0, 1 << 24, "a"});
  }
  EXPECT_LT(std::chrono::duration<double>(CopyClock::now() - start).count(), 60);
}

TEST(CopyEngine, EmptyTransfersAndEnginesWithoutAny) {
  FailingTier tier(0);
  auto idle = engine_on(tier, 0);
  EXPECT_TRUE(idle->wait_all());
  EXPECT_EQ(idle->totals().transfer_seconds, 0);
  auto engine = engine_on(tier, 2);
  std::byte nothing{};
  engine->begin_store({&nothing, 0, 0, "empty"});
  engine->begin_load({&nothing, 0, 0, "empty"});
  EXPECT_TRUE(engine->wait_all());
}

}  // namespace
}  // namespace lowtide::runtime
