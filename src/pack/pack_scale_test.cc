// The minimalloc benchmark, and sizes beyond what can be searched. The benchmark's files are not
// part of the repository: the test looks in $LOWTIDE_SHARED/data/minimalloc, then beside the
// checkout, and is skipped, visibly, if there are none. Times are printed, not judged: the limits
// are on work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "pack/pack.h"
#include "pack/testing/pack_oracle.h"
#include "plan/pack_text.h"
#include "plan/testing/max_load.h"
#include "support/long_checks.h"

namespace lowtide::pack {
namespace {

constexpr int64_t kBenchmarkCapacity = 1'048'576;

std::filesystem::path benchmark_folder() {
  return test_data() / "minimalloc";
}

void print_row(const std::string& name, const PackProblem& problem, const PackOutcome& outcome) {
  std::printf("%-20s %6zu buffers  %-8s height/bound %.4f  %9lld units  %.3f s\n", name.c_str(),
              problem.buffers.size(), std::string(plan::name(outcome.status)).c_str(),
              static_cast<double>(outcome.height_bytes) /
                  static_cast<double>(std::max<int64_t>(outcome.lower_bound_bytes, 1)),
              static_cast<long long>(outcome.work.units), outcome.work.seconds);
}

TEST(PackScale, TheMinimallocBenchmarkFitsItsCapacity) {
  std::set<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(benchmark_folder(), none))
    if (entry.path().extension() == ".csv") files.insert(entry.path());
  if (files.empty()) GTEST_SKIP() << "no benchmark files in " << benchmark_folder();
  PackOptions options;
  options.limits.max_units = 400'000'000;
  options.limits.max_seconds = 1e9;
  for (const auto& file : files) {
    const auto text = read_file(file.string());
    ASSERT_TRUE(text) << text.error().message;
    auto problem = plan::parse_pack_csv(*text, file.string());
    ASSERT_TRUE(problem) << problem.error().message;
    problem->capacity_bytes = kBenchmarkCapacity;
    const PackOutcome outcome = solve(*problem, options);
    print_row(file.filename().string(), *problem, outcome);
    EXPECT_EQ(fault(*problem, outcome), "") << file;
    EXPECT_LE(outcome.height_bytes, kBenchmarkCapacity) << file;
    EXPECT_TRUE(outcome.status == SolveStatus::kOptimal || outcome.status == SolveStatus::kFeasible)
        << file;
  }
}

// A rectangle of time x capacity cut into `count` boxes by random cuts through whole boxes, some of
// which are then left out: a packing below the capacity exists, and next to nothing is free.
std::vector<Buffer> cut_rectangle(int64_t count, int64_t capacity, uint64_t seed) {
  struct Box {
    int64_t begin, end, low, high;
  };
  Rng rng(seed);
  std::vector<Box> boxes = {{0, capacity, 0, capacity}};
  while (static_cast<int64_t>(boxes.size()) < count) {
    Box* box = &boxes[rng.below(boxes.size())];
    for (int tries = 0; tries < 2; ++tries) {
      Box& other = boxes[rng.below(boxes.size())];
      const auto area = [](const Box& b) { return (b.end - b.begin) * (b.high - b.low); };
      if (area(other) > area(*box)) box = &other;
    }
    const int64_t width = box->end - box->begin, height = box->high - box->low;
    if (width < 2 || height < 2) continue;
    Box rest = *box;
    if (rng.between(1, width + height) <= width)
      rest.begin = box->end = rng.between(box->begin + 1, box->end - 1);
    else
      rest.low = box->high = rng.between(box->low + 1, box->high - 1);
    boxes.push_back(rest);
  }
  std::vector<Buffer> buffers;
  for (const Box& b : boxes)
    if (rng.below(10) != 0) buffers.push_back(buffer(b.begin, b.end, b.high - b.low));
  return buffers;
}

TEST(PackScale, CutRectanglesArePutTogetherAgain) {
  constexpr int64_t kCapacity = 1024;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const int64_t count = seed < 6 ? 120 : 280;  // not all of the larger ones are
    const PackProblem problem = problem_of(cut_rectangle(count, kCapacity, seed), kCapacity);
    PackOptions options;
    options.limits.max_seconds = 1e9;
    const PackOutcome outcome = solve(problem, options);
    print_row("cut rectangle", problem, outcome);
    EXPECT_EQ(fault(problem, outcome), "") << "seed " << seed;
    EXPECT_LE(outcome.height_bytes, kCapacity) << "seed " << seed;
  }
}

// Lives like those of a training step: each layer's activations wait for the backward pass,
// gradients are short.
std::vector<Buffer> training_lives(int64_t layers, uint64_t seed) {
  Rng rng(seed);
  std::vector<Buffer> buffers;
  struct Saved {
    int64_t time;
    int64_t size;
  };
  std::vector<Saved> saved;
  int64_t time = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t width : {64, 64, 64, 256, 64, 256, 64}) {
      saved.push_back({time, width * 64 * (rng.below(4) == 0 ? 2 : 1)});
      if (rng.below(2) == 0)
        buffers.push_back(buffer(time, time + rng.between(1, 2), rng.between(1, 16) * 512));
      ++time;
    }
  for (; !saved.empty(); saved.pop_back(), ++time) {
    buffers.push_back(buffer(saved.back().time, time + 1, saved.back().size));
    buffers.push_back(buffer(time, time + 2, saved.back().size));
    buffers.push_back(buffer(time, time + 2, rng.between(1, 4) * 2048));
  }
  return buffers;
}

TEST(PackScale, TrainingLivesArePackedAtTheirLoad) {
  for (int64_t layers : {12, 40, 85}) {
    const PackProblem problem = problem_of(training_lives(layers, 7));
    const PackOutcome outcome = solve(problem);
    print_row("training", problem, outcome);
    EXPECT_EQ(fault(problem, outcome), "");
    EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
    EXPECT_EQ(outcome.lower_bound_bytes, plan::max_load_bytes(problem));
  }
}

// Full of loads near the greatest, which is not reached: such a search has no end of its own.
std::vector<Buffer> crowded_lives(uint64_t seed) {
  Rng rng(seed);
  return random_buffers(rng, {.buffers = 300, .times = 100, .longest = 60, .largest = 900});
}

TEST(PackScale, ASearchThatComesToNothingEnds) {
  const PackProblem problem = problem_of(crowded_lives(7));
  const PackOutcome outcome = solve(problem);
  print_row("crowded", problem, outcome);
  EXPECT_EQ(fault(problem, outcome), "");
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_LT(outcome.work.units, 100'000'000);
  PackOptions more;
  more.limits.max_units = 100'000'000'000;
  const PackOutcome same = solve(problem, more);
  EXPECT_EQ(same.offsets, outcome.offsets);
  EXPECT_EQ(same.work.units, outcome.work.units);
}

TEST(PackScale, ADecisionUsesAllOfItsWork) {
  PackProblem problem = problem_of(crowded_lives(7));
  problem.capacity_bytes = plan::max_load_bytes(problem);
  PackOptions options;
  options.limits.max_units = 20'000'000;
  const PackOutcome outcome = solve(problem, options);
  EXPECT_EQ(fault(problem, outcome), "");
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_GT(outcome.work.units, 15'000'000);
}

TEST(PackScale, FiftyThousandBuffersGetAGoodPackingWithLittleWork) {
  PackOptions options;
  options.limits.max_units = 50'000'000;
  for (const bool training : {true, false}) {
    Rng rng(5);
    const PackProblem problem = problem_of(
        training
            ? training_lives(2100, 3)
            : random_buffers(
                  rng, {.buffers = 50'000, .times = 50'000, .longest = 3000, .largest = 1000}));
    const PackOutcome outcome = solve(problem, options);
    print_row(training ? "training" : "random", problem, outcome);
    EXPECT_EQ(outcome.offsets.size(), problem.buffers.size());
    EXPECT_LE(outcome.height_bytes, outcome.lower_bound_bytes * 11 / 10);
  }
}

// The height that one list heuristic alone reaches.
int64_t list_height(const PackProblem& problem, bool PackOptions::*order, bool best_fit) {
  PackOptions options;
  options.search = options.class_orders = false;
  options.order_by_size = options.order_by_area = false;
  options.order_by_duration = options.order_by_start = false;
  options.*order = true;
  options.first_fit = !best_fit;
  options.best_fit = best_fit;
  return solve(problem, options).height_bytes;
}

// Training steps at scale: many long lives of very different sizes, short ones between them.
std::vector<Buffer> mixed_training_lives(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<Buffer> buffers;
  const int64_t end = count / 2;
  while (static_cast<int64_t>(buffers.size()) < count) {
    const int64_t time = rng.between(0, end - 1);
    const int64_t size = (int64_t{1} << rng.between(4, 22)) * rng.between(2, 3);
    const uint64_t kind = rng.below(20);
    if (kind == 0)  // an activation that waits for the backward pass
      buffers.push_back(
          buffer(std::min(time, end - time - 1), std::max(time, end - time - 1) + 1, size));
    else if (kind == 1)
      buffers.push_back(buffer(time, time + rng.between(20, 400), size));
    else
      buffers.push_back(buffer(time, time + rng.between(1, 4), 4 * size));
  }
  return buffers;
}

TEST(PackScale, LargeProblemsArePackedAtMostAsHighAsByAnyListHeuristic) {
  for (const int64_t count : {30'000, 62'000}) {
    if (count < 62'000 && !long_checks()) continue;  // takes twice as long as the larger
    const PackProblem problem = problem_of(mixed_training_lives(count, 7));
    PackOptions options;
    options.limits.max_seconds = 1e9;
    const PackOutcome outcome = solve(problem, options);
    print_row("mixed training", problem, outcome);
    EXPECT_LE((outcome.height_bytes - outcome.lower_bound_bytes) * 500, outcome.lower_bound_bytes);
    for (const auto order : {&PackOptions::order_by_size, &PackOptions::order_by_area,
                             &PackOptions::order_by_duration, &PackOptions::order_by_start})
      for (const bool best_fit : {false, true})
        EXPECT_LE(outcome.height_bytes, list_height(problem, order, best_fit));
  }
}

// A step planned within a budget: `waiting` activations wait for the backward pass, some buffers
// live for hundreds of steps, and short ones are there where the budget leaves room. The load is
// near its greatest at many moments, so that first fit by size misses it.
std::vector<Buffer> crowded_training_lives(int64_t count, int64_t waiting, uint64_t seed) {
  Rng rng(seed);
  const auto size = [&rng] {
    static constexpr int64_t kWidths[] = {1, 3, 4, 12, 16, 48, 50}, kTimes[] = {1, 2, 3, 5, 7};
    const int64_t width = kWidths[rng.below(7)];
    return 512 * width * kTimes[rng.below(5)];
  };
  const int64_t end = count / 2;
  std::vector<Buffer> buffers;
  for (int64_t k = 0; k < waiting; ++k) {
    const int64_t time = rng.between(0, end - 1), other = end - time - 1;
    buffers.push_back(buffer(std::min(time, other), std::max(time, other) + 1, size()));
  }
  for (int64_t k = 0; k < count / 20; ++k) {
    const int64_t time = rng.between(0, end - 1);
    buffers.push_back(buffer(time, std::min(end, time + rng.between(20, 400)), size()));
  }
  std::vector<int64_t> load(static_cast<size_t>(end));
  for (const Buffer& b : buffers)
    for (int64_t t = b.live.begin; t < b.live.end; ++t)
      load[static_cast<size_t>(t)] += b.size_bytes;
  const int64_t budget = *std::max_element(load.begin(), load.end()) * 105 / 100;
  while (static_cast<int64_t>(buffers.size()) < count) {
    const int64_t time = rng.between(0, end - 1);
    const int64_t upper = std::min(end, time + rng.between(1, 4)), bytes = 4 * size();
    const auto first = load.begin() + time, last = load.begin() + upper;
    if (*std::max_element(first, last) + bytes > budget) continue;
    std::for_each(first, last, [&](int64_t& there) { there += bytes; });
    buffers.push_back(buffer(time, upper, bytes));
  }
  return buffers;
}

// With a twentieth of the work; how near it comes with all of it is what bench/scale.py prints.
TEST(PackScale, CrowdedProblemsArePackedBelowFirstFit) {
  for (const auto& [count, waiting] : {std::pair{30'000, 850}, std::pair{62'000, 1'000}}) {
    if (count > 30'000 && !long_checks()) continue;
    const PackProblem problem = problem_of(crowded_training_lives(count, waiting, 7));
    PackOptions options;
    options.limits = {.max_units = 100'000'000, .max_seconds = 1e9};
    const PackOutcome outcome = solve(problem, options);
    print_row("crowded training", problem, outcome);
    ASSERT_EQ(outcome.offsets.size(), problem.buffers.size());
    const int64_t load = plan::max_load_bytes(problem);
    const int64_t by_size = list_height(problem, &PackOptions::order_by_size, /*best_fit=*/false);
    EXPECT_GE((by_size - load) * 250, load) << "not drawn hard";
    EXPECT_LT(outcome.height_bytes, by_size);
    for (const auto order : {&PackOptions::order_by_area, &PackOptions::order_by_start})
      EXPECT_LE(outcome.height_bytes, list_height(problem, order, /*best_fit=*/false));
  }
}

// Lives so long that a list heuristic is dear, and next to no work allowed.
TEST(PackScale, ALowLimitOfWorkIsNoExcuseForMoreThanFirstFit) {
  Rng rng(17);
  std::vector<Buffer> buffers;
  for (int64_t k = 0; k < 8'000; ++k) {
    const int64_t begin = rng.between(0, 8'000);
    buffers.push_back(buffer(begin, begin + rng.between(1, 1'500), rng.between(1, 4'096)));
  }
  const PackProblem problem = problem_of(buffers);
  PackOptions options;
  options.limits = {.max_units = 1'000, .max_seconds = 1e9};
  const PackOutcome outcome = solve(problem, options);
  print_row("dense", problem, outcome);
  EXPECT_EQ(fault(problem, outcome), "");
  int64_t least = std::numeric_limits<int64_t>::max(), by_start = 0;
  for (const auto order :
       {&PackOptions::order_by_size, &PackOptions::order_by_area, &PackOptions::order_by_start})
    least = std::min(least, by_start = list_height(problem, order, /*best_fit=*/false));
  EXPECT_LE(outcome.height_bytes, least);
  EXPECT_LT(outcome.height_bytes, by_start);
}

TEST(PackScale, TheCapturedLargeProblemsAreNearTheirLoad) {
  for (const std::string name : {"S_1.csv", "pangu_2.6B.csv"}) {
    const std::filesystem::path file = test_data() / "pack-large" / name;
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
    const auto text = read_file(file.string());
    ASSERT_TRUE(text) << text.error().message;
    const auto problem = plan::parse_pack_csv(*text, file.string());
    ASSERT_TRUE(problem) << problem.error().message;
    PackOptions options;
    options.limits.max_seconds = 1e9;
    const PackOutcome outcome = solve(*problem, options);
    print_row(name, *problem, outcome);
    EXPECT_LE((outcome.height_bytes - outcome.lower_bound_bytes) * 500, outcome.lower_bound_bytes);
  }
}

TEST(PackScale, ManyFixedBuffersAreHandled) {
  Rng rng(11);
  std::vector<Buffer> buffers;
  for (int64_t k = 0; k < 3000; ++k)  // a fixed one at each moment, at one of two heights
    buffers.push_back(buffer(k, k + 1, 5, 1, rng.below(2) == 0 ? 0 : 20));
  for (int64_t k = 0; k < 3000; ++k) {
    const int64_t begin = rng.between(0, 2990);
    buffers.push_back(buffer(begin, begin + rng.between(1, 10), rng.between(1, 9)));
  }
  const PackProblem problem = problem_of(buffers);
  PackOptions options;
  options.limits.max_units = 5'000'000;
  const PackOutcome outcome = solve(problem, options);
  print_row("fixed", problem, outcome);
  EXPECT_EQ(fault(problem, outcome), "");
}

}  // namespace
}  // namespace lowtide::pack
