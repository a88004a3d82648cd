// Budgets that are missed: what is said of them holds, can be had, and takes a small part of the
// work.
#include "pipeline/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/certificate.h"
#include "pipeline/claims.h"
#include "pipeline/prepare.h"
#include "pipeline/smallest.h"
#include "pipeline/testing/layers.h"
#include "plan/plan_text.h"
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
  options.schedule.remat.limits.max_units = units_in(0.2);
  options.pack.limits.max_units = units_in(0.2);
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
  const int64_t floor = proven_floor(ready->view.problem, true).bytes;
  const auto one = find_smallest(ready->view, options, ready->unlimited, floor);
  options.schedule.remat.threads = options.pack.threads = 2;
  const auto two = find_smallest(ready->view, options, ready->unlimited, floor);
  ASSERT_TRUE(one.has_value() && two.has_value());
  ASSERT_TRUE(one->has_value() && two->has_value());
  EXPECT_EQ((*one)->sequence, (*two)->sequence);
  EXPECT_EQ((*one)->arena_bytes, (*two)->arena_bytes);
  EXPECT_GE((*one)->profile.peak_bytes, floor);
}

TEST(Budget, APlanIsTheSameBytesForAnyNumberOfThreads) {
  for (const bool swap : {false, true}) {
    OptimizeOptions options = training_options();
    if (swap) options.slow_tiers = {{"host", plan::Link{1e9, 1e9, 1e-6}}};
    options.budget_bytes = swap ? 110'000 : 150'000;
    std::vector<std::string> plans;
    for (const int threads : {1, 2, 5}) {
      options.order.threads = options.pack.threads = options.schedule.remat.threads = threads;
      const auto made = optimize(tall_mlp(), options);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      EXPECT_EQ(made->plan.slow_tiers.empty(), !swap);
      plans.push_back(plan::print_plan(made->plan));
    }
    EXPECT_EQ(plans[0], plans[1]);
    EXPECT_EQ(plans[0], plans[2]);
  }
}

// However little work there is for a search and its packings.
TEST(Budget, AScheduleThatComesInIsNeverMadeSlower) {
  OptimizeOptions options = training_options();
  options.budget_bytes = 150'000;
  const auto first = optimize(tall_mlp(), options);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  options.starts.emplace_back();
  for (const plan::Step& step : first->plan.steps)
    if (step.kind == plan::Step::Kind::kCompute)
      options.starts.front().push_back(first->plan.ops[step.op].name);
  for (const int64_t units : {int64_t{1}, int64_t{1'000'000}, units_in(0.2)}) {
    options.schedule.remat.limits.max_units = units;
    const auto again = optimize(tall_mlp(), options);
    ASSERT_TRUE(again.has_value()) << units << " units: " << again.error().message;
    EXPECT_LE(again->plan.arena_bytes, 150'000) << units;
    EXPECT_LE(again->plan.claims.predicted_seconds, first->plan.claims.predicted_seconds) << units;
    EXPECT_TRUE(verify::verify(again->plan).ok());
  }
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

TEST(Budget, ThePlanClaimsWhatTheSearchHasProven) {
  for (const bool swap : {false, true}) {
    OptimizeOptions options = training_options();
    options.sums = false;
    if (swap) options.slow_tiers = {{"host", plan::Link{1e8, 1e8, 1e-6}}};
    options.budget_bytes = swap ? 110'000 : 150'000;
    const auto ready = prepare(tall_mlp(), options);
    ASSERT_TRUE(ready.has_value()) << ready.error().message;
    auto solved = fit_budget(ready->view, options, ready->order.sequence, ready->unlimited,
                             floor_of_view(ready->view, true));
    ASSERT_TRUE(solved.has_value()) << solved.error().message;
    ASSERT_TRUE(solved->bound && solved->bound->several) << swap;
    EXPECT_FALSE(solved->bound->cut_short());
    plan::ScheduleProblem problem = ready->view.problem;
    problem.budget_bytes = options.budget_bytes;
    const remat::TimeBound asked =
        remat::time_bound(problem, bound_to_claim(ready->order.sequence));
    EXPECT_EQ(solved->bound->several->certificate, asked.several->certificate);
    const auto made = write(*ready, *solved, options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const plan::Claims& claims = made->plan.claims;
    EXPECT_EQ(claims.lower_bound_ticks, asked.several->bound_ticks);
    EXPECT_EQ(claims.certificate.time,
              in_plan(ready->graph, ready->view, asked.several->certificate).time);
    solved->bound.reset();  // then it is asked for once the plan is there
    const auto again = write(*ready, *solved, options);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(plan::print_plan(again->plan), plan::print_plan(made->plan));
  }
}

// What is told on the way, and a flag that goes up at the first word that satisfies `when`.
struct Listener {
  std::function<bool(const plan::Progress&)> when;
  std::atomic<bool> cancel{false};
  std::vector<plan::Progress> told;

  void attach(OptimizeOptions& options) {
    options.order.limits.cancel = options.pack.limits.cancel =
        options.schedule.remat.limits.cancel = &cancel;
    options.progress = [this](const plan::Progress& progress) {
      told.push_back(progress);
      if (when && when(progress)) cancel = true;
    };
  }
};

TEST(Budget, OnlyWhatHasAddressesIsToldAsTheBest) {
  OptimizeOptions options = training_options();
  options.budget_bytes = 150'000;
  Listener listener;
  listener.attach(options);
  const auto made = optimize(tall_mlp(), options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_FALSE(made->cut_short);
  ASSERT_FALSE(listener.told.empty());
  EXPECT_EQ(listener.told.front().seconds, 0) << "nothing is packed yet";
  double best = 0, share = 0;
  for (const plan::Progress& progress : listener.told) {
    EXPECT_EQ(progress.budget_bytes, *options.budget_bytes);
    EXPECT_GE(progress.share, share);
    share = progress.share;
    if (best > 0) {
      EXPECT_GT(progress.seconds, 0);
      EXPECT_LE(progress.seconds, best);
    }
    best = progress.seconds;
    if (best > 0) {
      EXPECT_LT(progress.unpacked_seconds, best);
      EXPECT_GE(best, made->plan.claims.predicted_seconds);
    }
  }
}

// All the work is the one attempt's.
TEST(Budget, ASingleScheduleGetsAllTheWork) {
  OptimizeOptions options = training_options();
  options.budget_bytes = 150'000;
  options.find_smallest = false;
  Listener two, one;
  options.schedules_packed = 2;
  two.attach(options);
  const auto halved = optimize(tall_mlp(), options);
  ASSERT_TRUE(halved.has_value()) << halved.error().message;
  options.schedules_packed = 1;
  one.attach(options);
  const auto whole = optimize(tall_mlp(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_LE(whole->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(whole->plan).ok());
  ASSERT_FALSE(one.told.empty());
  double share = 0;
  for (const plan::Progress& progress : one.told) {
    EXPECT_GE(progress.share, share) << "it would be no number if it were divided by 0 others";
    EXPECT_LE(progress.share, 1);
    share = progress.share;
  }
  EXPECT_GT(share, 0.5) << "the first of two has the first half";
}

TEST(Budget, AProofIsToldAfterTheSearch) {
  OptimizeOptions options = training_options();
  options.budget_bytes = 150'000;
  options.proof_units = units_in(0.2);
  Listener listener;
  listener.attach(options);
  const auto made = optimize(tall_mlp(), options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const plan::Claims& claims = made->plan.claims;
  int searches = 0, proofs = 0;
  double share = 0, proven = 0;
  for (const plan::Progress& progress : listener.told) {
    EXPECT_EQ(progress.budget_bytes, *options.budget_bytes);
    EXPECT_GE(progress.share, share);
    EXPECT_LE(progress.share, 1);
    share = progress.share;
    const bool proves = progress.stage == plan::SearchStage::kProof;
    (proves ? proofs : searches) += 1;
    EXPECT_EQ(progress.share >= 0.5, proves) << "as much work for each";
    EXPECT_TRUE(proves || proofs == 0);
    if (!proves) continue;
    EXPECT_EQ(progress.seconds, claims.predicted_seconds);
    EXPECT_EQ(progress.peak_bytes, claims.peak_bytes);
    EXPECT_GE(progress.lower_bound_seconds, proven);
    EXPECT_LE(progress.lower_bound_seconds, progress.seconds);
    proven = progress.lower_bound_seconds;
  }
  EXPECT_GT(searches, 0);
  EXPECT_GT(proofs, 1);
  EXPECT_GE(proven, claims.lower_bound_seconds);
}

TEST(Budget, AStoppedSearchGivesAPlanThatSaysSo) {
  OptimizeOptions options = training_options();
  options.schedule.remat.limits.max_units = units_in(1000);
  options.budget_bytes = 150'000;
  Listener listener;
  listener.when = [](const plan::Progress& progress) { return progress.unpacked_seconds > 0; };
  listener.attach(options);
  const auto made = optimize(tall_mlp(), options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_TRUE(made->cut_short);
  EXPECT_LE(made->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(made->plan).ok());
}

TEST(Budget, AStopBeforeTheFirstOrderStillGivesAPlan) {
  OptimizeOptions options = training_options();
  Listener listener;
  listener.attach(options);
  listener.cancel = true;
  const auto unlimited = optimize(tall_mlp(), options);
  ASSERT_TRUE(unlimited.has_value()) << unlimited.error().message;
  EXPECT_TRUE(verify::verify(unlimited->plan).ok());
  options.schedule.remat.limits.max_units = units_in(1000);
  options.budget_bytes = 200'000;
  const auto kept = optimize(tall_mlp(), options);
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_TRUE(kept->cut_short);
  EXPECT_LE(kept->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(kept->plan).ok());
}

}  // namespace
}  // namespace lowtide::pipeline
