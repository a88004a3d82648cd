// Budgets as they are written, where a front bends, and what is told of it.
// tests/python/test_sweep.py makes whole fronts.
#include "api/front.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/budgets.h"
#include "api/state.h"

namespace lowtide {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr MemoryScale kScale{400 * kMiB, 1000 * kMiB};

std::vector<int64_t> mib(const std::string& text, int points = 10) {
  const auto ranges = parse_budgets(text, points, "--budgets");
  EXPECT_TRUE(ranges) << (ranges ? "" : ranges.error().message);
  std::vector<int64_t> result;
  if (ranges)
    for (int64_t bytes : bytes_of(*ranges, kScale)) result.push_back(bytes / kMiB);
  return result;
}

std::string complaint(const std::string& text, int points = 10) {
  const auto ranges = parse_budgets(text, points, "--budgets");
  if (ranges) return "no error";
  EXPECT_EQ(ranges.error().code, ErrorCode::kUsage);
  EXPECT_EQ(ranges.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(ranges.error().message.starts_with("--budgets: '")) << ranges.error().message;
  return ranges.error().message;
}

using Sizes = std::vector<int64_t>;

TEST(Budgets, SharesAreOfTheArenaThatNeedsNoBudget) {
  EXPECT_EQ(mib("50%..100%:6"), (Sizes{1000, 900, 800, 700, 600, 500}));
  EXPECT_EQ(mib("50%..100%", 3), (Sizes{1000, 750, 500}));
  EXPECT_EQ(mib("62.5%"), (Sizes{625}));
}

TEST(Budgets, SizesFloorAndListsMix) {
  EXPECT_EQ(mib("600MiB..0.78125GiB:3"), (Sizes{800, 700, 600}));
  EXPECT_EQ(mib("floor..100%:4"), (Sizes{1000, 800, 600, 400}));
  EXPECT_EQ(mib(" 60%, 80% ,900MiB,floor"), (Sizes{900, 800, 600, 400}));
  EXPECT_EQ(mib("60%,600MiB,50%..60%:2"), (Sizes{600, 500}));
}

TEST(Budgets, EndsInDifferentUnitsMayStandInAnyOrder) {
  EXPECT_EQ(mib("90%..600MiB:2"), (Sizes{900, 600}));
}

TEST(Budgets, OfARangeOnlyTheFirstLiesBelowTheFloor) {
  EXPECT_EQ(mib("10%..100%:5"), (Sizes{1000, 850, 700, 550, 100}));
  EXPECT_EQ(mib("10%..30%:3"), (Sizes{300, 200, 100}));
}

TEST(Budgets, StepsAreNotFinerThanAThousandthOfTheEnd) {
  EXPECT_EQ(mib("1000MiB..1003MiB:50"), (Sizes{1003, 1001, 1000}));
  EXPECT_EQ(mib("800MiB..800MiB:9"), (Sizes{800}));
}

TEST(Budgets, WhatIsWrongIsNamed) {
  EXPECT_NE(complaint("600MiBB").find("600MiBB' is not a size"), std::string::npos);
  EXPECT_NE(complaint("600MiBB").find("60%, or floor"), std::string::npos);
  EXPECT_NE(complaint("40 percent").find("40 percent"), std::string::npos);
  EXPECT_NE(complaint("40%..").find("''"), std::string::npos);
  EXPECT_NE(complaint("").find("''"), std::string::npos);
  EXPECT_NE(complaint("40%,,60%").find("''"), std::string::npos);
  EXPECT_NE(complaint("40%..1GB..2GB").find("1GB..2GB"), std::string::npos);
  EXPECT_NE(complaint("40%..100%:1").find("from 2 to 1000"), std::string::npos);
  EXPECT_NE(complaint("40%..100%:ten").find("from 2 to 1000"), std::string::npos);
  EXPECT_NE(complaint("40%:5").find("40%:5"), std::string::npos);
  EXPECT_NE(complaint("100%..40%").find("smaller budget first"), std::string::npos);
  EXPECT_NE(complaint("2GiB..1GiB").find("smaller budget first"), std::string::npos);
  for (const char* share : {"0%", "-5%", "101%", "nan%", "%", "4e9%", "1%%"})
    EXPECT_NE(complaint(share).find("above 0% and at most 100%"), std::string::npos) << share;
  EXPECT_NE(complaint("1%..99%,1%..99%,1%..99%", 400).find("more than 1000 budgets"),
            std::string::npos);
  EXPECT_NE(complaint("6\x1b[31m0%").find("\\x1B"), std::string::npos);
}

TEST(Budgets, AnAmountIsNoRange) {
  EXPECT_FALSE(parse_amount("40%..60%", "--choose"));
  EXPECT_FALSE(parse_amount("40%,60%", "--choose"));
  EXPECT_EQ(bytes_of(*parse_amount("floor", "--choose"), kScale), kScale.floor_bytes);
}

// Budgets descending; an arena of 0 is a budget that was missed.
std::vector<FrontPoint> points(const std::vector<std::pair<int64_t, double>>& arena_and_seconds) {
  std::vector<FrontPoint> result;
  int64_t budget = 1000;
  for (const auto& [arena, seconds] : arena_and_seconds) {
    FrontPoint point;
    point.budget_bytes = budget -= 10;
    point.found = arena > 0;
    point.status = point.found ? "feasible" : "infeasible";
    point.arena_bytes = point.peak_bytes = arena;
    point.seconds = seconds;
    result.push_back(point);
  }
  return result;
}

TEST(Knee, LiesWhereLessMemoryBeginsToCostMore) {
  EXPECT_EQ(knee_of(points({{100, 1.0}, {80, 1.1}, {60, 1.2}, {50, 3.0}, {45, 9.0}})), 2U);
  EXPECT_EQ(knee_of(points({{100, 1.0}, {60, 1.01}, {0, 0}, {50, 9.0}, {0, 0}})), 1U);
}

TEST(Knee, NoneOnALineOrWithTwoPlans) {
  EXPECT_EQ(knee_of(points({})), std::nullopt);
  EXPECT_EQ(knee_of(points({{0, 0}})), std::nullopt);
  EXPECT_EQ(knee_of(points({{100, 1}})), std::nullopt);
  EXPECT_EQ(knee_of(points({{100, 1}, {50, 2}})), std::nullopt);
  EXPECT_EQ(knee_of(points({{100, 1}, {75, 1.5}, {50, 2}})), std::nullopt);
  EXPECT_EQ(knee_of(points({{100, 1}, {100, 1}, {100, 1}})), std::nullopt);
  EXPECT_EQ(knee_of(points({{100, 1}, {90, 1}, {80, 1}})), std::nullopt);
}

TEST(FrontOptions, WrongOnesAreRefusedBeforeAnythingRuns) {
  const auto model = Model::read(std::string(LOWTIDE_SOURCE_DIR) + "/models/unet.onnx",
                                 {.dims = {{"batch", 1}}, .training = true});
  ASSERT_TRUE(model) << model.error().message;
  const auto code = [&](const PlanOptions& options, const SweepOptions& sweep) {
    const auto front = Front::make(*model, options, sweep);
    return front ? ErrorCode::kInternal : front.error().code;
  };
  EXPECT_EQ(code({.train = true, .budget_bytes = 1 << 30}, {}), ErrorCode::kUsage);
  EXPECT_EQ(code({.train = true}, {.points = 1}), ErrorCode::kUsage);
  EXPECT_EQ(code({.train = true}, {.budgets = "lots"}), ErrorCode::kUsage);
  EXPECT_EQ(code({.train = true}, {.choose = "40%..50%"}), ErrorCode::kUsage);
  EXPECT_EQ(code({.train = true, .effort = 0.01}, {.budgets = "1KiB,2KiB"}),
            ErrorCode::kInfeasible);
}

TEST(Front, IsWhatItsPlansAre) {
  const auto model = Model::read(std::string(LOWTIDE_SOURCE_DIR) + "/models/unet.onnx",
                                 {.dims = {{"batch", 1}}, .training = true});
  ASSERT_TRUE(model) << model.error().message;
  const auto front = Front::make(*model, {.train = true, .effort = 0.05},
                                 {.budgets = "80%..100%:4,1KiB", .choose = "85%"});
  ASSERT_TRUE(front) << front.error().message;
  ASSERT_EQ(front->points().size(), 6U);
  for (size_t i = 0; i + 1 < front->points().size(); ++i) {
    const FrontPoint& point = front->points()[i];
    ASSERT_TRUE(point.found) << point.reason;
    const Plan* plan = front->plan(i);
    ASSERT_NE(plan, nullptr);
    EXPECT_TRUE(plan->verify());
    EXPECT_EQ(plan->arena_bytes(), point.arena_bytes);
    EXPECT_LE(point.arena_bytes, point.budget_bytes);
    EXPECT_GE(point.arena_bytes, front->floor_bytes());
    EXPECT_LE(point.lower_bound_seconds, point.seconds);
    EXPECT_GE(point.seconds, front->once_seconds() * (1 - 1e-9));
    if (i == 0) continue;
    EXPECT_LE(point.arena_bytes, front->points()[i - 1].arena_bytes);
    EXPECT_GE(point.seconds, front->points()[i - 1].seconds);
    EXPECT_GE(point.lower_bound_seconds, front->points()[i - 1].lower_bound_seconds);
  }
  const FrontPoint& missed = front->points().back();
  EXPECT_FALSE(missed.found);
  EXPECT_EQ(missed.status, "infeasible");
  EXPECT_NE(missed.reason.find("1024 bytes"), std::string::npos);
  EXPECT_EQ(front->plan(front->points().size() - 1), nullptr);
  EXPECT_EQ(front->plan(front->points().size()), nullptr);
  ASSERT_TRUE(front->chosen());
  EXPECT_EQ(front->points()[*front->chosen()].budget_bytes,
            static_cast<int64_t>(0.85 * static_cast<double>(front->unlimited().arena_bytes())));
}

}  // namespace
}  // namespace lowtide
