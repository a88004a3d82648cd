// When steps happen: a plan by hand, and random right plans against the verifier's time of a step.
#include "report/timeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/curve_text.h"
#include "report/testing/small_plans.h"
#include "verify/testing/example_plans.h"
#include "verify/verify.h"

namespace lowtide::report {
namespace {

plan::Step step_of(plan::Step::Kind kind, PlanStorageId storage) {
  plan::Step step;
  step.kind = kind;
  step.storage = storage;
  return step;
}

// The product moves out behind its run and comes back before the gradient, 64 bytes in 1 s and 2 s.
Plan moving_plan() {
  Plan plan = plan_with_a_rerun();
  plan.steps.erase(plan.steps.begin() + 5);
  plan.slow_tiers.push_back({.name = "host",
                             .bytes = 64,
                             .bytes_per_second_out = 64,
                             .bytes_per_second_in = 32,
                             .compute_seconds_per_byte = 0.5});
  const PlanStorageId product(4);
  plan.storages[product].slow_tier = 0;
  using Kind = plan::Step::Kind;
  const std::vector<plan::Step> moves = {step_of(Kind::kStore, product),
                                         step_of(Kind::kWait, product)};
  plan.steps.insert(plan.steps.begin() + 3, moves.begin(), moves.end());
  plan.steps.insert(plan.steps.begin() + 6, step_of(Kind::kLoad, product));
  plan.steps.insert(plan.steps.begin() + 8, step_of(Kind::kWait, product));
  return plan;
}

TEST(Timeline, OfAPlanByHand) {
  const Plan plan = moving_plan();
  const Timeline line = timeline_of(plan);
  ASSERT_EQ(line.transfers.size(), 2u);
  const Transfer &store = line.transfers[0], &load = line.transfers[1];
  EXPECT_TRUE(store.out);
  EXPECT_EQ(store.when.begin, 0.25);  // behind the product
  EXPECT_EQ(store.when.end, 1.25);
  EXPECT_EQ(store.begin_step, 3u);
  EXPECT_EQ(store.wait_step, 4u);
  EXPECT_EQ(store.waited_seconds, 1.0);
  EXPECT_FALSE(load.out);
  EXPECT_EQ(load.when.begin, 1.25);
  EXPECT_EQ(load.seconds, 2.0);
  EXPECT_EQ(load.waited_seconds, 1.75);  // the gradient's 0.25 s hide the rest
  EXPECT_EQ(line.steps[7].begin, 1.25);
  EXPECT_EQ(line.steps[7].end, 1.5);
  EXPECT_EQ(line.end_seconds, 3.25);
  EXPECT_EQ(line.copying_seconds, 64.0);
  const std::string curve = curve_text(plan, {.columns = 4, .rows = 1, .colours = false});
  EXPECT_TRUE(curve.ends_with(" 3250.0 ms, and 64000.0 ms of copying\n")) << curve;
}

TEST(Timeline, ATransferThatNothingWaitsForEndsTheStep) {
  Plan plan = moving_plan();
  plan.steps.resize(4);
  const Timeline line = timeline_of(plan);
  ASSERT_EQ(line.transfers.size(), 1u);
  EXPECT_EQ(line.transfers[0].wait_step, plan.steps.size());
  EXPECT_EQ(line.end_seconds, 1.25);
}

TEST(Timeline, IsAsLongAsTheVerifierSays) {
  size_t transfers = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const Plan once = verify::lower(verify::random_graph(rng, static_cast<int>(4 + seed % 11)), rng,
                                    {.certificate = false});
    const Plan plan = verify::rerun_and_move(once, rng, 20);
    const Timeline line = timeline_of(plan);
    const double expected = verify::verify(plan).predicted_seconds;
    ASSERT_NEAR(line.end_seconds + line.copying_seconds, expected, 1e-12 + 1e-9 * expected)
        << "seed " << seed;
    ASSERT_EQ(line.steps.size(), plan.steps.size());
    for (size_t i = 1; i < line.steps.size(); ++i)
      ASSERT_EQ(line.steps[i].begin, line.steps[i - 1].end);
    transfers += line.transfers.size();
  }
  EXPECT_GT(transfers, 50u);
}

}  // namespace
}  // namespace lowtide::report
