// Tests of fronts that need no model file; tests/python/test_sweep.py makes whole ones.
#include "pipeline/front.h"

#include <gtest/gtest.h>

#include "pipeline/testing/layers.h"
#include "plan/plan.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

// On a fast link moves cost no time; within a budget that the step keeps without, there are none.
TEST(FrontOfMoves, NothingMovesWhereTheStepFitsWithout) {
  OptimizeOptions options = options_on_cpu();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.schedule.recompute = false;
  options.schedule.remat.limits.max_units = 1'000'000;
  options.slow_tiers = {{"host", {1e12, 1e12, 0, 0}}};
  const auto choose = [](int64_t, int64_t arena) {
    std::vector<int64_t> budgets;
    for (const int64_t percent : {100, 98, 95, 92, 88, 84})
      budgets.push_back(arena * percent / 100);
    return budgets;
  };
  const auto front = optimize_front(mlp(12, 512, 128), options, choose);
  ASSERT_TRUE(front.has_value()) << front.error().message;
  const auto& most = front->points[0].made;
  ASSERT_TRUE(most.has_value());
  EXPECT_FALSE(plan::reruns_or_moves(most->plan));
  EXPECT_EQ(most->schedule_status, plan::SolveStatus::kOptimal);
  int moves_for_free = 0;
  for (const FrontPoint& point : front->points) {
    if (!point.made || !plan::reruns_or_moves(point.made->plan)) continue;
    EXPECT_TRUE(verify::verify(point.made->plan).ok());
    moves_for_free +=
        point.made->plan.claims.predicted_seconds == most->plan.claims.predicted_seconds;
  }
  EXPECT_GT(moves_for_free, 0);
}

}  // namespace
}  // namespace lowtide::pipeline
