#include "plan/tick_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace lowtide::plan {
namespace {

TEST(TickScale, IsTheSmallestPowerOfTwoWithWhichAStepFits) {
  const TickScale scale(std::vector<double>{3, 1, 0.5});
  EXPECT_EQ(scale.per_second(), 0x1p37);
  EXPECT_EQ(scale.once(), static_cast<int64_t>(4.5 * 0x1p37));
  EXPECT_EQ(scale.down(0.5), int64_t{1} << 36);
  EXPECT_EQ(scale.seconds(int64_t{1} << 36), 0.5);
  EXPECT_EQ(TickScale(std::vector<double>{1}).once(), kMostStepTicks);
}

TEST(TickScale, KeepsItsPrecisionWhateverTheStepTakes) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> seconds;
    const double unit = std::pow(10, rng.uniform() * 15 - 12);
    for (uint64_t n = 1 + rng.below(50); n > 0; --n)
      seconds.push_back(rng.below(4) ? rng.uniform() * unit
                                     : std::pow(10, rng.uniform() * 15 - 12));
    const TickScale scale(seconds);
    EXPECT_LE(scale.once(), kMostStepTicks);
    EXPECT_GT(scale.once(), kMostStepTicks / 2 - static_cast<int64_t>(seconds.size()));
    double once = 0;
    for (const double s : seconds) {
      once += s;
      EXPECT_LE(scale.seconds(scale.down(s)), s);
      EXPECT_GE(scale.seconds(scale.up(s)), s);
      EXPECT_LE(scale.up(s) - scale.down(s), 1);
    }
    EXPECT_NEAR(scale.seconds(scale.once()), once,
                once * 0x1p-38 * static_cast<double>(seconds.size()));
    auto shuffled = seconds;
    for (size_t k = shuffled.size(); k > 1; --k) std::swap(shuffled[k - 1], shuffled[rng.below(k)]);
    shuffled.insert(shuffled.begin(), 3, 0.0);  // ops that only make views
    EXPECT_EQ(TickScale(shuffled), scale);
  }
}

TEST(TickScale, CapsWhatOneCostMayBe) {
  const TickScale scale(std::vector<double>{1e-12});
  EXPECT_EQ(scale.down(1e12), kMostTicks);
  EXPECT_EQ(scale.up(1e12), kMostTicks);
  EXPECT_EQ(TickScale(std::vector<double>{}).once(), 0);
  EXPECT_EQ(TickScale(std::vector<double>{0, 0}).once(), 0);
  for (const double extreme : {5e-324, 1e308}) {
    const TickScale wide(std::vector<double>(3, extreme));
    EXPECT_LE(wide.once(), kMostStepTicks);
    EXPECT_TRUE(std::isfinite(wide.per_second()));
    EXPECT_GT(wide.per_second(), 0);
  }
}

TEST(TickScale, SaysWhatABoundIsInSeconds) {
  const TickScale scale(std::vector<double>{0.3, 0.1});
  const int64_t half = scale.down(0.5);
  EXPECT_EQ(scale.bound_seconds(scale.once(), 0.4, false), 0.4);
  EXPECT_EQ(scale.bound_seconds(scale.once(), 0.4, true), 0.4);
  EXPECT_EQ(scale.bound_seconds(half, 0.4, true), scale.seconds(half));
  EXPECT_EQ(scale.bound_seconds(half, 0.4, false), 0.4 + scale.seconds(half - scale.once()));
}

}  // namespace
}  // namespace lowtide::plan
