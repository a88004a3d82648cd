// Budgets are kept during each run, with as few runs as the paper's theorem says of chains; values
// that cannot be made again are found out.
#include "baselines/dtr.h"

#include <gtest/gtest.h>

#include <cmath>

#include "baselines/testing/layers.h"

namespace lowtide::baselines {
namespace {

// Section 3 of the paper: with memory for some square roots of a chain, a number of runs that grows
// as the chain does.
TEST(Dtr, RunsAChainInSquareRootMemoryAFewTimes) {
  for (const size_t n : {25, 100, 400}) {
    plan::ScheduleProblem problem = chain_of(std::vector<Layer>(n));
    problem.budget_bytes = 4 * static_cast<int64_t>(std::sqrt(n));
    const BaselineOutcome outcome = solve(problem, Method::kDtr);
    ASSERT_TRUE(outcome.found()) << n;
    EXPECT_LE(outcome.peak_bytes, *problem.budget_bytes);
    EXPECT_LE(outcome.sequence.size(), 4 * n) << n;
  }
}

TEST(Dtr, KeepsEachTightBudgetOrSaysThatItCannot) {
  plan::ScheduleProblem problem = chain_of(std::vector<Layer>(60));
  size_t before = 0;
  int found = 0;
  for (int64_t budget = 62; budget >= 2; --budget) {
    problem.budget_bytes = budget;
    const BaselineOutcome outcome = solve(problem, Method::kDtr);
    if (!outcome.found()) continue;
    ++found;
    ASSERT_LE(outcome.peak_bytes, budget);
    before = std::max(before, outcome.sequence.size());
  }
  EXPECT_GE(found, 55);
  EXPECT_GT(before, problem.ops.size() * 2);
}

// Of two values that are as large and as long idle the one that costs less leaves.
TEST(Dtr, EvictsWhatIsCheapForItsBytes) {
  plan::ScheduleProblem problem;
  for (const double seconds : {9.0, 1.0, 1.0, 1.0, 1.0}) {
    plan::SchedOp op;
    op.seconds = seconds;
    op.may_rerun = true;
    problem.ops.push_back(op);
  }
  problem.values = {};
  problem.values.push_back(plan::value(4, 0, {3, 4}));
  problem.values.push_back(plan::value(4, 1, {2, 4}));
  problem.values.push_back(plan::value(4, 2, {3}));
  problem.values.push_back(plan::value(4, 3, {4}));
  problem.budget_bytes = 12;
  const BaselineOutcome outcome = solve(problem, Method::kDtr);
  ASSERT_TRUE(outcome.found());
  EXPECT_EQ(outcome.seconds, 14);  // op 1 runs twice
}

// Value 0 leaves, but op 0 may not run again once op 2 has run: the step begins anew and keeps it.
TEST(Dtr, KeepsWhatCannotBeMadeAgainWhenItIsWanted) {
  plan::ScheduleProblem problem;
  for (int i = 0; i < 5; ++i) {
    plan::SchedOp op;
    op.seconds = i == 0 ? 1 : 5;
    op.may_rerun = i < 2;
    problem.ops.push_back(op);
  }
  problem.values.push_back(plan::value(4, 0, {1, 4}));
  problem.values.push_back(plan::value(4, 1, {4}));
  problem.values.push_back(plan::value(4, 2, {3}));
  problem.values.push_back(plan::value(4, 3, {4}));
  problem.control.emplace_back(SchedOpId(0), SchedOpId(2));
  problem.budget_bytes = 15;
  const BaselineOutcome outcome = solve(problem, Method::kDtr);
  // All three of the inputs of op 4 are there at last: 12 bytes; at op 3 value 1 is away.
  ASSERT_TRUE(outcome.found());
  EXPECT_EQ(outcome.seconds, 26);
}

}  // namespace
}  // namespace lowtide::baselines
