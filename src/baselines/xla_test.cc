// What the walk does to small sequences, by hand.
#include "baselines/xla.h"

#include <gtest/gtest.h>

#include "baselines/testing/layers.h"
#include "plan/sequence_text.h"

namespace lowtide::baselines {
namespace {

plan::ScheduleProblem ops_of(const std::vector<double>& seconds) {
  plan::ScheduleProblem problem;
  for (const double s : seconds) {
    plan::SchedOp op;
    op.seconds = s;
    op.may_rerun = true;
    problem.ops.push_back(op);
  }
  return problem;
}

std::string answer(const plan::ScheduleProblem& problem) {
  const BaselineOutcome outcome = solve(problem, Method::kXla);
  return outcome.found() ? plan::print(outcome.sequence) : std::string("none");
}

// Value 0 is large and idle from op 1 to op 3.
plan::ScheduleProblem idle_value() {
  plan::ScheduleProblem problem = ops_of({3, 1, 1, 1});
  problem.values.push_back(plan::value(8, 0, {1, 3}));
  problem.values.push_back(plan::value(4, 1, {2}));
  problem.values.push_back(plan::value(8, 2, {3}));
  return problem;
}

TEST(Xla, RunsAgainBeforeTheNextUse) {
  plan::ScheduleProblem problem = idle_value();
  problem.budget_bytes = 19;
  EXPECT_EQ(answer(problem), "0 1 2 0 3");
  problem.budget_bytes = 20;
  EXPECT_EQ(answer(problem), "0 1 2 3");
  problem.budget_bytes = 15;
  EXPECT_EQ(answer(problem), "none");
}

// Nobody has used value 0 yet: its run moves behind op 1.
TEST(Xla, MovesARunThatNobodyUsedYet) {
  plan::ScheduleProblem problem = ops_of({3, 1, 1});
  problem.values.push_back(plan::value(8, 0, {2}));
  problem.values.push_back(plan::value(2, 1, {2}));
  problem.ops[SchedOpId(1)].workspace_bytes = 8;
  problem.budget_bytes = 10;
  EXPECT_EQ(answer(problem), "1 0 2");
}

// Alone, value 1 brings nothing: value 0, which it is made from, would have to stay for it.
TEST(Xla, TakesABlockWhereOneRunIsOfNoUse) {
  plan::ScheduleProblem problem = ops_of({1, 1, 1, 1, 1});
  problem.values.push_back(plan::value(8, 0, {1}));
  problem.values.push_back(plan::value(8, 1, {2, 4}));
  problem.values.push_back(plan::value(1, 2, {3}));
  problem.values.push_back(plan::value(1, 3, {4}));
  problem.ops[SchedOpId(3)].workspace_bytes = 9;
  problem.budget_bytes = 17;
  EXPECT_EQ(answer(problem), "0 1 2 3 0 1 4");
}

TEST(Xla, OffloadsWhereBothCopiesAreHidden) {
  plan::ScheduleProblem problem = ops_of({3, 1, 4, 4, 4, 1});
  problem.values.push_back(plan::value(8, 0, {1, 5}));
  problem.values.push_back(plan::value(4, 1, {2}));
  problem.values.push_back(plan::value(4, 2, {3}));
  problem.values.push_back(plan::value(12, 3, {4}));
  problem.values.push_back(plan::value(3, 4, {5}));
  problem.budget_bytes = 23;
  problem.link = plan::Link{.bytes_per_second_out = 2, .bytes_per_second_in = 2};
  // Four seconds each way: out during op 2, back during op 4.
  EXPECT_EQ(answer(problem), "0 1 store:0 2 drop:0 3 load:0 4 5");
  EXPECT_EQ(solve(problem, Method::kXla).status, plan::SolveStatus::kOptimal);
  problem.link->bytes_per_second_out = 1.9;
  EXPECT_EQ(answer(problem), "0 1 2 3 4 0 5");
  problem.link = plan::Link{.bytes_per_second_out = 2, .bytes_per_second_in = 1.9};
  EXPECT_EQ(answer(problem), "0 1 2 3 4 0 5");
  problem.link = plan::Link{.bytes_per_second_out = 2, .bytes_per_second_in = 2, .bytes = 7};
  EXPECT_EQ(answer(problem), "0 1 2 3 4 0 5");
}

TEST(Xla, KeepsAChainWithinTightBudgets) {
  plan::ScheduleProblem problem = chain_of(std::vector<Layer>(40));
  for (const int64_t budget : {36, 30, 25, 20, 16}) {
    problem.budget_bytes = budget;
    const BaselineOutcome outcome = solve(problem, Method::kXla);
    ASSERT_TRUE(outcome.found()) << budget;
    EXPECT_LE(outcome.peak_bytes, budget);
  }
}

}  // namespace
}  // namespace lowtide::baselines
