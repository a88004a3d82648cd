// Cases small enough to be checked by hand, the degenerate ones, and what each status means.
#include "pack/pack.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/bytes.h"
#include "pack/testing/pack_oracle.h"

namespace lowtide::pack {
namespace {

// The height of 3 needs a search: every list heuristic gives 4 or more on a part of these.
std::vector<Buffer> staircase() {
  return {buffer(0, 2, 1), buffer(1, 4, 2), buffer(2, 3, 1), buffer(3, 6, 1), buffer(4, 7, 2)};
}

TEST(Pack, NoBuffersNeedNothing) {
  const PackOutcome outcome = solve(PackProblem());
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(outcome.height_bytes, 0);
  EXPECT_EQ(outcome.lower_bound_bytes, 0);
}

TEST(Pack, NoBuffersFitBelowAnyCapacity) {
  EXPECT_EQ(solve(problem_of({}, 0)).status, SolveStatus::kOptimal);
}

TEST(Pack, OneBufferLiesAtZero) {
  const PackOutcome outcome = expect_optimal({buffer(-5, 5, 7)});
  EXPECT_EQ(outcome.offsets[BufferId(0)], 0);
  EXPECT_EQ(outcome.height_bytes, 7);
}

TEST(Pack, BuffersThatFollowEachOtherShareTheirBytes) {
  EXPECT_EQ(expect_optimal({buffer(0, 3, 4), buffer(3, 5, 4), buffer(5, 6, 4)}).height_bytes, 4);
}

TEST(Pack, IdenticalBuffersAreStacked) {
  EXPECT_EQ(expect_optimal(std::vector<Buffer>(5, buffer(0, 1, 3))).height_bytes, 15);
}

TEST(Pack, BuffersWithoutBytesTakeNoRoom) {
  EXPECT_EQ(expect_optimal({buffer(0, 9, 0), buffer(0, 9, 0), buffer(1, 2, 5)}).height_bytes, 5);
  EXPECT_EQ(expect_optimal({buffer(0, 9, 0, 4, 8), buffer(1, 2, 5)}).height_bytes, 8);
  EXPECT_EQ(solve(problem_of({buffer(0, 9, 0, 4, 8)}, 7)).status, SolveStatus::kInfeasible);
}

TEST(Pack, TheStaircaseIsPackedAtItsLoad) {
  EXPECT_EQ(expect_optimal(staircase()).height_bytes, 3);
}

TEST(Pack, AlignmentLeavesGapsWhereItMust) {
  // Two buffers of 3 bytes, both aligned to 4: the second begins at 4. The bound knows.
  const PackOutcome outcome = expect_optimal({buffer(0, 1, 3, 4), buffer(0, 1, 3, 4)});
  EXPECT_EQ(outcome.height_bytes, 7);
  EXPECT_EQ(expect_optimal({buffer(0, 1, 3, 4), buffer(0, 1, 3, 4), buffer(0, 1, 1)}).height_bytes,
            7);
}

TEST(Pack, UnitsDoNotDisturbAlignments) {
  EXPECT_EQ(expect_optimal({buffer(0, 1, 6, 4), buffer(0, 1, 6, 4)}).height_bytes, 14);
  EXPECT_EQ(expect_optimal({buffer(0, 1, 6, 3), buffer(0, 1, 6, 9)}).height_bytes, 12);
  EXPECT_EQ(expect_optimal({buffer(0, 1, 10, 6), buffer(0, 1, 10, 4)}).height_bytes, 22);
}

TEST(Pack, FixedBuffersStayAndOthersGoAround) {
  const PackOutcome outcome =
      expect_optimal({buffer(0, 4, 2, 1, 3), buffer(1, 3, 3), buffer(2, 5, 4)});
  EXPECT_EQ(outcome.offsets[BufferId(0)], 3);
  EXPECT_EQ(outcome.height_bytes, 9);
}

TEST(Pack, FixedBuffersThatOverlapAreInfeasible) {
  expect_optimal({buffer(0, 4, 2, 1, 3), buffer(3, 5, 2, 1, 4)});
  expect_optimal({buffer(0, 4, 2, 1, 3), buffer(4, 5, 2, 1, 4)});  // one after the other: fine
  expect_optimal({buffer(0, 4, 2, 1, 3), buffer(0, 9, 9, 1, 10), buffer(8, 9, 2, 1, 18)});
}

TEST(Pack, ACapacityAboveTheLoadIsMet) {
  const PackOutcome outcome = solve(problem_of(staircase(), 3));
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(fault(problem_of(staircase(), 3), outcome), "");
}

TEST(Pack, ACapacityBelowTheLoadIsRefutedByTheBound) {
  const PackOutcome outcome = solve(problem_of(staircase(), 2));
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome.lower_bound_bytes, 3);
  EXPECT_TRUE(outcome.offsets.empty());
}

TEST(Pack, ACapacityIsRoundedDownToUnits) {
  const PackOutcome outcome = solve(problem_of({buffer(0, 2, 8), buffer(0, 2, 8)}, 15));
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome.lower_bound_bytes, 16);
}

TEST(Pack, WithoutSearchTheAnswerIsFeasibleOrHonest) {
  PackOptions options;
  options.search = false;
  options.order_by_size = options.order_by_area = options.order_by_duration = false;
  const auto buffers =
      std::vector<Buffer>{buffer(0, 1, 1), buffer(0, 3, 1), buffer(1, 4, 2), buffer(3, 6, 3)};
  const PackOutcome free = solve(problem_of(buffers), options);
  EXPECT_EQ(fault(problem_of(buffers), free), "");
  if (free.height_bytes > free.lower_bound_bytes) {
    EXPECT_EQ(free.status, SolveStatus::kFeasible);
    const PackOutcome capped = solve(problem_of(buffers, free.height_bytes - 1), options);
    EXPECT_EQ(capped.status, SolveStatus::kLimit);
    EXPECT_EQ(capped.height_bytes, free.height_bytes);
  }
}

TEST(Pack, NoWorkStillGivesAPacking) {
  PackOptions options;
  options.limits.max_units = 0;
  const PackOutcome outcome = solve(problem_of(staircase()), options);
  EXPECT_EQ(fault(problem_of(staircase()), outcome), "");
}

TEST(Pack, NoTimeIsSaidToHaveRunOut) {
  Rng rng(3);
  const auto buffers =
      random_buffers(rng, {.buffers = 200, .times = 60, .longest = 60, .largest = 900});
  PackOptions options;
  options.limits.max_seconds = 0;
  const PackOutcome outcome = solve(problem_of(buffers), options);
  EXPECT_EQ(fault(problem_of(buffers), outcome), "");
  EXPECT_TRUE(outcome.work.timed_out || outcome.status == SolveStatus::kOptimal);
}

TEST(Pack, ARaisedFlagLeavesTheQuickAnswer) {
  Rng rng(3);
  const auto buffers =
      random_buffers(rng, {.buffers = 200, .times = 60, .longest = 60, .largest = 900});
  PackOptions options;
  std::atomic<bool> cancel{false};
  options.limits.cancel = &cancel;
  const PackOutcome calm = solve(problem_of(buffers), options);
  EXPECT_FALSE(calm.work.timed_out);
  cancel = true;
  const PackOutcome stopped = solve(problem_of(buffers), options);
  EXPECT_EQ(fault(problem_of(buffers), stopped), "");
  EXPECT_TRUE(stopped.work.timed_out);
  EXPECT_LT(stopped.work.units, 100'000);
  EXPECT_GE(stopped.height_bytes, calm.height_bytes);
}

TEST(Pack, HugeSizesDoNotOverflow) {
  const int64_t half = kMaxBytes / 2 - 16;
  EXPECT_EQ(solve(problem_of({buffer(0, 1, half), buffer(0, 1, half)})).height_bytes, 2 * half);
  const PackProblem high =
      problem_of({buffer(0, 2, 8, 8, kMaxBytes - 8), buffer(0, 1, half, 1), buffer(1, 2, half, 3)});
  const PackOutcome outcome = solve(high);
  EXPECT_EQ(fault(high, outcome), "");
  EXPECT_EQ(outcome.height_bytes, kMaxBytes);
  const PackProblem wide = problem_of(
      {buffer(INT64_MIN, INT64_MAX, 3), buffer(INT64_MIN, 0, 2), buffer(0, INT64_MAX, 2)});
  EXPECT_EQ(solve(wide).height_bytes, 5);
}

TEST(Pack, TheAnswerDoesNotDependOnThreads) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    const PackProblem problem =
        problem_of(random_buffers(rng, {.buffers = 60, .times = 40, .longest = 30, .largest = 20}));
    PackOptions options;
    options.limits.max_units = 1'200'000;  // the tightest-first search has its share
    const PackOutcome one = solve(problem, options);
    EXPECT_EQ(fault(problem, one), "");
    for (int threads : {2, 3, 8}) {
      options.threads = threads;
      const PackOutcome many = solve(problem, options);
      EXPECT_EQ(one.offsets, many.offsets) << "seed " << seed;
      EXPECT_EQ(one.work.units, many.work.units) << "seed " << seed;
      EXPECT_EQ(one.status, many.status) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lowtide::pack
