// On a chain of equal layers the known answer: about twice the square root of its length, for one
// more forward part.
#include "baselines/chen.h"

#include <gtest/gtest.h>

#include <cmath>

#include "baselines/forward.h"
#include "baselines/testing/layers.h"

namespace lowtide::baselines {
namespace {

TEST(Chen, NeedsTwiceTheSquareRootOfAChain) {
  for (const size_t n : {16, 64, 100, 256}) {
    plan::ScheduleProblem problem = chain_of(std::vector<Layer>(n));
    const auto root = static_cast<int64_t>(std::sqrt(n));
    // A border's value for each segment, the values of one, a gradient and the one it becomes.
    problem.budget_bytes = 2 * root + 2;
    const BaselineOutcome outcome = solve(problem, Method::kChen);
    ASSERT_TRUE(outcome.found()) << n;
    EXPECT_LE(outcome.peak_bytes, *problem.budget_bytes);
    const auto once = static_cast<double>(3 * n);
    EXPECT_LE(outcome.seconds, once + static_cast<double>(n)) << n;
    problem.budget_bytes = 2 * root - 2;
    EXPECT_FALSE(solve(problem, Method::kChen).found()) << n;
  }
}

TEST(Chen, RunsNothingAgainWhereAllFits) {
  plan::ScheduleProblem problem = chain_of(std::vector<Layer>(20));
  problem.budget_bytes = peak_of_given_order(problem);
  EXPECT_EQ(solve(problem, Method::kChen).status, plan::SolveStatus::kOptimal);
  problem.budget_bytes = *problem.budget_bytes - 1;
  const BaselineOutcome outcome = solve(problem, Method::kChen);
  EXPECT_EQ(outcome.status, plan::SolveStatus::kFeasible);
  EXPECT_GT(outcome.sequence.size(), problem.ops.size());
}

TEST(Chen, MoreMemoryNeverTakesMoreTime) {
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Layer> layers;
    for (int i = 0; i < 30; ++i)
      layers.push_back(
          {rng.between(1, 9), rng.between(1, 3), static_cast<double>(rng.between(1, 9)), 5});
    plan::ScheduleProblem problem = deep_chain_of(layers);
    double before = 0;
    for (int64_t budget = peak_of_given_order(problem); budget > 0; budget = budget * 9 / 10) {
      problem.budget_bytes = budget;
      const BaselineOutcome outcome = solve(problem, Method::kChen);
      if (!outcome.found()) break;
      EXPECT_GE(outcome.seconds, before);
      before = outcome.seconds;
    }
  }
}

TEST(ForwardPart, EndsWhereMostBytesPassBy) {
  const plan::ScheduleProblem problem = chain_of(std::vector<Layer>(10));
  const plan::ProblemIndex index(problem);
  const IdVector<SchedOpId, char> forward = forward_part(problem, index);
  for (const SchedOpId op : problem.ops.ids())
    if (op.index() < 9 || op.index() > 10) {
      EXPECT_EQ(forward[op] != 0, op.index() < 10) << op.index();
    }
}

TEST(Chen, TakesTheForwardPartThatItIsGiven) {
  plan::ScheduleProblem problem = chain_of(std::vector<Layer>(36));
  problem.budget_bytes = 30;
  BaselineOptions options;
  options.forward = IdVector<SchedOpId, char>(problem.ops.size(), 0);
  for (const SchedOpId op : problem.ops.ids()) options.forward[op] = op.index() < 12 ? 1 : 0;
  // Segments of the first third alone save too little.
  EXPECT_TRUE(solve(problem, Method::kChen).found());
  EXPECT_TRUE(solve(problem, Method::kChen, options).found());
  problem.budget_bytes = 20;
  EXPECT_TRUE(solve(problem, Method::kChen).found());
  EXPECT_FALSE(solve(problem, Method::kChen, options).found());
}

}  // namespace
}  // namespace lowtide::baselines
