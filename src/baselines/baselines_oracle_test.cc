// Every answer on random small problems is a schedule within the budget and never faster than the
// best there is, by exhaustive search; the same answer twice.
#include <gtest/gtest.h>

#include <string>

#include "baselines/baselines.h"
#include "baselines/testing/layers.h"
#include "plan/schedule_text.h"
#include "plan/sequence_text.h"
#include "remat/bounds/testing/remat_oracle.h"

namespace lowtide::baselines {
namespace {

struct Tally {
  int feasible = 0;
  int found[kMethodNames.size()] = {}, best[kMethodNames.size()] = {};
};

void check_all(const plan::RandomSchedule& shape, int problems, uint64_t seed, Tally& tally) {
  Rng rng(seed);
  for (int i = 0; i < problems; ++i) {
    plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    const int64_t least = remat::RematOracle(problem).least_peak()->peak_bytes;
    problem.budget_bytes =
        rng.between(least - 1, std::max(least, peak_of_given_order(problem) - 1));
    remat::RematOracle oracle(problem);
    const auto fastest = oracle.fastest();
    if (!oracle.complete()) continue;
    tally.feasible += fastest.has_value();
    for (size_t m = 0; m < kMethodNames.size(); ++m) {
      const std::string context = std::string(kMethodNames[m]) + " on problem " +
                                  std::to_string(i) + "\n" + plan::print(problem);
      const BaselineOutcome outcome = solve(problem, static_cast<Method>(m));
      ASSERT_EQ(solve(problem, static_cast<Method>(m)).sequence, outcome.sequence) << context;
      if (!outcome.found()) {
        ASSERT_TRUE(outcome.sequence.empty()) << context;
        continue;
      }
      ASSERT_TRUE(fastest.has_value()) << context << print(outcome.sequence);
      const auto profile = plan::simulate_sequence(problem, outcome.sequence);
      ASSERT_TRUE(profile.has_value()) << profile.error().message << context;
      ASSERT_LE(profile->peak_bytes, *problem.budget_bytes) << context;
      ASSERT_EQ(profile->seconds, outcome.seconds) << context;
      ASSERT_GE(profile->seconds, fastest->seconds - 1e-9) << context << print(outcome.sequence);
      ++tally.found[m];
      tally.best[m] += profile->seconds <= fastest->seconds + 1e-9;
    }
  }
  for (size_t m = 0; m < kMethodNames.size(); ++m)
    std::printf("%s: of %d feasible %d found, %d of them as fast as possible\n",
                std::string(kMethodNames[m]).c_str(), tally.feasible, tally.found[m],
                tally.best[m]);
}

TEST(BaselinesOracle, NoAnswerIsWrongOrFasterThanTheBest) {
  Tally tally;
  check_all({}, 1'500, 51, tally);
  EXPECT_GT(tally.found[static_cast<size_t>(Method::kDtr)], tally.feasible / 4);
  EXPECT_GT(tally.found[static_cast<size_t>(Method::kXla)], tally.feasible / 4);
}

TEST(BaselinesOracle, NoAnswerWithTransfersIsWrongOrFasterThanTheBest) {
  Tally tally;
  check_all({.min_ops = 2, .max_ops = 4, .max_bytes = 5, .link_rate = 1, .resident_rate = 0.1}, 80,
            52, tally);
}

// Larger, without the oracle: what they say of a problem holds.
TEST(BaselinesOracle, LargerProblemsKeepTheirBudgets) {
  Rng rng(53);
  const plan::RandomSchedule shape{
      .min_ops = 20, .max_ops = 60, .reader_rate = 0.05, .link_rate = 0.5, .resident_rate = 0.05};
  for (int i = 0; i < 300; ++i) {
    plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    const int64_t peak = peak_of_given_order(problem);
    problem.budget_bytes = rng.between(peak / 2, peak);
    for (size_t m = 0; m < kMethodNames.size(); ++m) {
      const BaselineOutcome outcome = solve(problem, static_cast<Method>(m));
      if (!outcome.found()) continue;
      const auto profile = plan::simulate_sequence(problem, outcome.sequence);
      ASSERT_TRUE(profile.has_value()) << profile.error().message;
      ASSERT_LE(profile->peak_bytes, *problem.budget_bytes);
    }
  }
}

TEST(Baselines, LimitsOfWorkEndThem) {
  plan::ScheduleProblem problem = chain_of(std::vector<Layer>(100));
  problem.budget_bytes = 30;
  for (size_t m = 0; m < kMethodNames.size(); ++m) {
    BaselineOptions options;
    options.limits.max_units = 1;
    EXPECT_FALSE(solve(problem, static_cast<Method>(m), options).found());
  }
}

}  // namespace
}  // namespace lowtide::baselines
