// Mixed choices: never worse than the choice that fits, and in a deep step, whose layers all change
// their mind at one price, within a layer of what the bound proves.
#include "remat/bounds/cut_plan.h"

#include <gtest/gtest.h>

#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::ScheduleProblem;

TEST(MixedChoice, FitsAndCostsNoMoreThanTheChoiceThatFits) {
  Rng rng(8);
  int64_t cheaper = 0, plans = 0;
  for (int i = 0; i < 3000; ++i) {
    plan::RandomSchedule shape{.min_ops = 6, .max_ops = 20, .reader_rate = 0.2};
    if (i % 2 == 1) shape.control_rate = 0.1;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const CutBoundResult cut = closure_cut(problem);
    if (!cut.feasible || !cut.op) continue;
    const CutChoice mixed = mixed_choice(problem, cut);
    EXPECT_LE(mixed.stored_bytes, cut.capacity_bytes) << "problem " << i;
    EXPECT_LE(mixed.rerun_ticks, cut.choice.rerun_ticks) << "problem " << i;
    EXPECT_GE(mixed.rerun_ticks, cut.bound_ticks) << "problem " << i;
    cheaper += mixed.rerun_ticks < cut.choice.rerun_ticks;
    CutBoundResult with = cut;
    with.choice = mixed;
    const auto plan = plan_from_cut(problem, with);
    ASSERT_TRUE(plan.has_value());
    EXPECT_TRUE(plan::simulate_sequence(problem, *plan).has_value()) << "problem " << i;
    ++plans;
  }
  EXPECT_GT(plans, 300);
  EXPECT_GT(cheaper, 5);
}

TEST(MixedChoice, OfADeepStepIsWithinALayerOfTheBound) {
  ScheduleProblem problem = deep_step({.layers = 200});
  // Of the values that are cheap to make again two in three may not stay.
  problem.budget_bytes = 200 * (DeepStep().second_bytes + DeepStep().first_bytes / 2) + 10;
  const CutBoundResult cut = closure_cut(problem);
  ASSERT_TRUE(cut.feasible && cut.op);
  const CutChoice mixed = mixed_choice(problem, cut);
  const int64_t layer = plan::TickScale(problem).down(1);
  EXPECT_LE(mixed.rerun_ticks, cut.bound_ticks + layer);
  EXPECT_GT(cut.choice.rerun_ticks, cut.bound_ticks + 50 * layer);  // which drops all of them
}

}  // namespace
}  // namespace lowtide::remat
