// Budgets that are missed: what is said of them holds, can be had, and takes a small part of the
// work.
#include "pipeline/budget.h"

#include <gtest/gtest.h>

#include <string>

#include "pipeline/claims.h"
#include "pipeline/prepare.h"
#include "pipeline/smallest.h"
#include "pipeline/testing.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

// Activations are most of what a step of these needs, and can be computed again.
ir::Graph tall_mlp() {
  return mlp(12, 256, 16);
}

OptimizeOptions training_options() {
  OptimizeOptions options = options_on_cpu();
  options.training = autodiff::TrainingOptions{};
  options.schedule.remat.max_units = remat::units_in(0.2);
  options.pack.work_limit = pack::units_in(0.2);
  return options;
}

int64_t number_after(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? 0 : std::stoll(text.substr(at + words.size()));
}

TEST(Budget, TheArenaThatARefusalNamesCanBeHad) {
  OptimizeOptions options = training_options();
  const auto unlimited = optimize(tall_mlp(), options);
  ASSERT_TRUE(unlimited.has_value()) << unlimited.error().message;
  options.budget_bytes = 1;
  const auto refused = optimize(tall_mlp(), options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  const int64_t floor = number_after(refused.error().message, "needs at least ");
  const int64_t smallest = number_after(refused.error().message, "arena found has ");
  EXPECT_GE(smallest, floor);
  EXPECT_LT(smallest, unlimited->plan.arena_bytes) << refused.error().message;
  options.budget_bytes = smallest;
  const auto kept = optimize(tall_mlp(), options);
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_LE(kept->plan.arena_bytes, smallest);
  EXPECT_TRUE(verify::verify(kept->plan).ok());
}

TEST(Budget, TheSmallestArenaIsTheSameForAnyNumberOfThreads) {
  OptimizeOptions options = training_options();
  const auto ready = prepare(tall_mlp(), options);
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  const int64_t floor = floor_bytes(ready->view.problem, true);
  const auto one = find_smallest(ready->view, options, ready->unlimited, floor);
  options.schedule.remat.threads = options.pack.threads = 2;
  const auto two = find_smallest(ready->view, options, ready->unlimited, floor);
  ASSERT_TRUE(one.has_value() && two.has_value());
  ASSERT_TRUE(one->has_value() && two->has_value());
  EXPECT_EQ((*one)->sequence, (*two)->sequence);
  EXPECT_EQ((*one)->arena_bytes, (*two)->arena_bytes);
  EXPECT_GE((*one)->profile.peak_bytes, floor);
}

TEST(Budget, WhatOrdersReachAloneIsNoNews) {
  OptimizeOptions options = training_options();
  const auto ready = prepare(mlp(2, 1, 8), options);
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  const int64_t peak = ready->unlimited.profile.peak_bytes;
  ASSERT_EQ(ready->unlimited.arena_bytes, peak);
  const auto smallest = find_smallest(ready->view, options, ready->unlimited, peak);
  ASSERT_TRUE(smallest.has_value());
  EXPECT_FALSE(smallest->has_value()) << "no arena is below the floor";
}

}  // namespace
}  // namespace lowtide::pipeline
