// Schedules of one part of everything: with a link no longer than without, each lever kept off
// where it is forbidden, above the bound of the cut, and all parts' transfers in their time.
#include "pipeline/label_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "autodiff/training.h"
#include "pipeline/testing/layers.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

class LabelScheduleTest : public testing::Test {
 protected:
  LabelScheduleTest() {
    options_.training.emplace();
    options_.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    options_.device.launch_seconds = 0;
    options_.slow_tiers = {{"host", {.bytes_per_second_out = 1e11, .bytes_per_second_in = 1e11}}};
    graph_ = autodiff::make_training_graph(mlp(8, 4096, 16), *options_.training).value();
  }
  std::unique_ptr<LabelProblem> problem(const OptimizeOptions& options) const {
    return LabelProblem::make(graph_, options, 100'000).value();
  }
  static int64_t peak(LabelProblem& of, const Labels& labels) {
    return pose(of, of.cut(labels).value().value(), 0).order.peak_bytes;
  }
  std::optional<LabelSchedule> within(LabelProblem& of, const Labels& labels, int64_t budget,
                                      const OptimizeOptions& options) const {
    const CutStep cut = of.cut(labels).value().value();
    return schedule_within(of, pose(of, cut, budget), options,
                           {.limits = {.max_units = 1'000'000}});
  }

  OptimizeOptions options_ = options_on_cpu();
  ir::Graph graph_;
};

TEST_F(LabelScheduleTest, WhatFitsEachOpOnceIsTheOrder) {
  const auto of = problem(options_);
  const int64_t enough = peak(*of, {});
  const auto found = within(*of, {}, enough, options_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->seconds, of->cut({}).value()->once_seconds);
  EXPECT_EQ(found->peak_bytes, enough);
  EXPECT_EQ(found->runs.size(), of->view().op.size());
}

TEST_F(LabelScheduleTest, ATransferReplacesARerunWhereItIsCheaper) {
  OptimizeOptions alone = options_;
  alone.schedule.transfers = false;
  const auto linked = problem(options_), without = problem(alone);
  int shorter = 0;
  for (const Labels& labels : {Labels{}, Labels{.parts = 4}, Labels{.nests = {{"Relu.3", 4}}}})
    for (const int64_t percent : {85, 70, 55}) {
      const int64_t budget = peak(*without, labels) * percent / 100;
      const auto both = within(*linked, labels, budget, options_);
      const auto recomputed = within(*without, labels, budget, alone);
      ASSERT_TRUE(both.has_value() || !recomputed.has_value());
      if (!both) continue;
      EXPECT_LE(both->peak_bytes, budget);
      const fission::Scaled scaled = linked->scaled(linked->cut(labels).value().value(), budget);
      const auto bound = remat::closure_cut(scaled.problem);
      EXPECT_GE(both->seconds, bound.lower_bound_seconds * (1 - 1e-9));
      if (!recomputed) continue;
      EXPECT_LE(both->seconds, recomputed->seconds * (1 + 1e-9));
      shorter += both->seconds < recomputed->seconds * (1 - 1e-6);
    }
  EXPECT_GT(shorter, 1);
}

TEST_F(LabelScheduleTest, KeepsOffWhatIsForbidden) {
  OptimizeOptions moved = options_, nothing = options_;
  moved.schedule.recompute = nothing.schedule.recompute = nothing.schedule.transfers = false;
  const auto linked = problem(moved), without = problem(nothing);
  const int64_t budget = peak(*linked, {}) * 8 / 10;
  EXPECT_FALSE(within(*without, {}, budget, nothing).has_value());
  const auto found = within(*linked, {}, budget, moved);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->runs.size(), linked->view().op.size());  // nothing runs again
  EXPECT_LE(found->peak_bytes, budget);
}

// Twice the bytes over the link in twice the time: a link so much faster makes up for parts that
// all move by themselves.
TEST_F(LabelScheduleTest, MovesOfAllPartsTakeTheirTime) {
  OptimizeOptions moved = options_, faster = options_;
  moved.schedule.recompute = faster.schedule.recompute = false;
  moved.slow_tiers = {{"host", {.bytes_per_second_out = 1e6, .bytes_per_second_in = 1e6}}};
  faster.slow_tiers = {{"host", {.bytes_per_second_out = 1e9, .bytes_per_second_in = 1e9}}};
  const auto slow = problem(moved), fast = problem(faster);
  for (const int64_t parts : {2, 8}) {
    const int64_t budget = peak(*slow, {.parts = parts}) * 8 / 10;
    const auto one = within(*slow, {.parts = parts}, budget, moved);
    const auto other = within(*fast, {.parts = parts}, budget, faster);
    ASSERT_TRUE(one.has_value() && other.has_value()) << parts;
    const double once = slow->cut({.parts = parts}).value()->once_seconds;
    const auto too_much = static_cast<double>(parts * (peak(*slow, {.parts = parts}) - budget));
    EXPECT_GE(one->seconds, too_much / 1e6) << parts;  // out, in each part
    EXPECT_LT(other->seconds, one->seconds) << parts;
    EXPECT_GE(other->seconds, once) << parts;
  }
}

}  // namespace
}  // namespace lowtide::pipeline
