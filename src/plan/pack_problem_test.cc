#include "plan/pack_problem.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/rng.h"
#include "plan/testing/max_load.h"

namespace lowtide::plan {
namespace {

PackProblem with(Buffer b) {
  PackProblem problem;
  problem.buffers.push_back({.name = "first", .live = {0, 1}, .size_bytes = 1, .fixed_offset = {}});
  problem.buffers.push_back(std::move(b));
  return problem;
}

std::string complaint(Buffer b) {
  const Status status = check(with(std::move(b)));
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInput);
  return status.error().message;
}

TEST(PackProblem, CheckAcceptsWhatMakesSense) {
  EXPECT_TRUE(check(PackProblem()));
  EXPECT_EQ(complaint({.name = "b", .live = {-3, 5}, .size_bytes = 0, .fixed_offset = {}}), "");
  EXPECT_EQ(complaint({.name = "b",
                       .live = {0, 5},
                       .size_bytes = 7,
                       .alignment_bytes = 64,
                       .fixed_offset = 128}),
            "");
}

TEST(PackProblem, CheckNamesTheBufferAndTheNumbers) {
  EXPECT_EQ(complaint({.name = "b", .live = {5, 5}, .size_bytes = 1, .fixed_offset = {}}),
            "buffer 1 ('b'): lives from 5 to 5; the upper end must be greater");
  EXPECT_EQ(complaint({.name = "b", .live = {0, 5}, .size_bytes = -1, .fixed_offset = {}}),
            "buffer 1 ('b'): size -1 is negative");
  EXPECT_EQ(
      complaint(
          {.name = "b", .live = {0, 5}, .size_bytes = 1, .alignment_bytes = 0, .fixed_offset = {}}),
      "buffer 1 ('b'): alignment 0 is not positive");
  EXPECT_EQ(
      complaint(
          {.name = "b", .live = {0, 5}, .size_bytes = 1, .alignment_bytes = 8, .fixed_offset = 12}),
      "buffer 1 ('b'): fixed offset 12 is negative or not a multiple of 8");
  EXPECT_NE(
      complaint({.name = "b", .live = {0, 5}, .size_bytes = 2, .fixed_offset = kMaxBytes - 1}), "");
  EXPECT_NE(complaint({.name = "b", .live = {0, 5}, .size_bytes = kMaxBytes, .fixed_offset = {}}),
            "");
}

// By definition: the load at each step that matters, that is at each begin.
int64_t load_by_definition(const PackProblem& problem) {
  int64_t most = 0;
  for (const Buffer& at : problem.buffers) {
    int64_t load = 0;
    for (const Buffer& b : problem.buffers)
      if (b.live.contains(at.live.begin)) load += b.size_bytes;
    most = std::max(most, load);
  }
  return most;
}

TEST(PackProblem, MaxLoadEqualsItsDefinition) {
  EXPECT_EQ(max_load_bytes(PackProblem()), 0);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    PackProblem problem;
    for (int64_t k = rng.between(1, 12); k > 0; --k) {
      const int64_t begin = rng.between(-4, 10);
      problem.buffers.push_back({.name = "",
                                 .live = {begin, begin + rng.between(1, 6)},
                                 .size_bytes = rng.between(0, 9),
                                 .fixed_offset = {}});
    }
    ASSERT_EQ(max_load_bytes(problem), load_by_definition(problem)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lowtide::plan
