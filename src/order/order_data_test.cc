// The captured training steps and large synthetic graphs: known optima, with proof, in the time
// that is promised.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "order/order.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

struct Instance {
  const char* name;
  int64_t incoming_bytes;
  int64_t optimum_bytes;
};

class CapturedSteps : public testing::TestWithParam<Instance> {};

TEST_P(CapturedSteps, ReachTheKnownOptimumWithProof) {
  const auto path = captured_steps() / "order" / (std::string(GetParam().name) + ".order");
  const auto text = read_file(path.string());
  ASSERT_TRUE(text.has_value());
  const auto problem = plan::parse_order_file(*text, path.string());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  std::vector<plan::SchedOpId> incoming;
  for (plan::SchedOpId op : problem->ops.ids()) incoming.push_back(op);
  EXPECT_EQ(plan::simulate(*problem, incoming)->peak_bytes, GetParam().incoming_bytes);
  const auto outcome = solve(*problem);
  EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal);
  EXPECT_EQ(outcome.peak_bytes, GetParam().optimum_bytes);
  EXPECT_EQ(plan::simulate(*problem, outcome.sequence)->peak_bytes, outcome.peak_bytes);
  EXPECT_EQ(plan::parse_schedule_problem(plan::print(*problem), "printed").value(), *problem);
  EXPECT_LT(outcome.work.units, 16'000'000);
}
INSTANTIATE_TEST_SUITE_P(All, CapturedSteps,
                         testing::Values(Instance{"resnet_b1_s1", 165'531'040, 87'440'800},
                                         Instance{"bert_b1_s1", 625'584'360, 281'290'752},
                                         Instance{"gpt2_s1", 2'212'648'960, 2'212'648'960},
                                         Instance{"unet_s1", 751'876'616, 751'876'096}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LargeGraphs, TrainingStepsAreProvenOptimal) {
  const plan::ScheduleProblem problems[] = {
      mlp_training(250, 10, 120), mlp_training(1250, 10, 120), mlp_training(333, 100, 15),
      transformer_training(24, 40, 400), transformer_training(96, 40, 700)};
  for (const auto& problem : problems) {
    const auto outcome = solve(problem);
    EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal) << problem.ops.size() << " ops";
  }
}

// Where greedy rules went wrong: hundreds of conversions that are ready from the start.
TEST(LargeGraphs, TrainingStepsWithConvertedWeightsAreProvenOptimal) {
  Rng rng(8);
  for (const auto& [activation, weight] :
       {std::pair{1000, 10}, std::pair{100, 100}, std::pair{10, 1000}})
    for (const size_t layers : {10u, 50u, 200u}) {
      const auto problem = converted_weights_training(layers, activation, weight, rng);
      ASSERT_TRUE(plan::check(problem).has_value());
      const auto outcome = solve(problem);
      EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal)
          << layers << " layers: " << outcome.peak_bytes << " " << outcome.lower_bound_bytes;
      EXPECT_LT(outcome.work.units, 16'000'000);
    }
}

// One value read by thousands of ops at once. Some reader must be the last, with all others'
// outputs present; the cut of a single op does not see that, so a difference of at most the read
// value remains, and the lists of ready ops are long.
TEST(LargeGraphs, AWideFanKeepsToItsWorkLimit) {
  ProblemMaker make;
  const auto root = make.value(make.op(), 100);
  std::vector<plan::SchedValueId> leaves;
  int64_t leaf_bytes = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    const auto op = make.op(i % 17);
    make.read(op, root);
    leaves.push_back(make.value(op, 1 + i % 5));
    leaf_bytes += 1 + i % 5;
  }
  const auto sink = make.op();
  for (const auto& leaf : leaves) make.read(sink, leaf);
  make.value(sink, 1, true);
  OrderOptions options;
  options.limits.max_units = 16'000'000;
  const auto outcome = solve(make.problem, options);
  EXPECT_GE(outcome.peak_bytes, leaf_bytes + 100);
  EXPECT_LE(outcome.peak_bytes, leaf_bytes + 116);  // that and the largest workspace
  EXPECT_EQ(outcome.lower_bound_bytes, leaf_bytes + 1);
  EXPECT_EQ(outcome.status, plan::SolveStatus::kLimit);
  EXPECT_LT(outcome.work.units, options.limits.max_units * 11 / 10);
}

// A bound that stays open is no reason to spend all of the work: an end comes when a while brought
// nothing.
TEST(LargeGraphs, ASearchThatFindsNothingMoreEndsBeforeItsLimit) {
  Rng rng(7);
  const auto problem = random_dag(1000, 100, 2, rng);
  OrderOptions options;
  options.limits.max_units = 480'000'000;
  options.idle_units = 1'600'000;
  const auto soon = solve(problem, options);
  EXPECT_EQ(soon.status, plan::SolveStatus::kLimit);
  EXPECT_LT(soon.work.units, options.limits.max_units / 2);
  EXPECT_FALSE(soon.work.timed_out);
  EXPECT_EQ(plan::simulate(problem, soon.sequence)->peak_bytes, soon.peak_bytes);
  options.idle_units = options.limits.max_units = 128'000'000;
  const auto patient = solve(problem, options);
  EXPECT_GT(patient.work.units, soon.work.units);
  EXPECT_LE(patient.peak_bytes, soon.peak_bytes);
  EXPECT_GE(patient.lower_bound_bytes, soon.lower_bound_bytes);
}

TEST(LargeGraphs, WideRandomGraphsStopAtTheLimitWithAnHonestGap) {
  Rng rng(7);
  const auto problem = random_dag(1000, 100, 2, rng);
  OrderOptions options;
  options.limits.max_units = 16'000'000;
  const auto outcome = solve(problem, options);
  EXPECT_EQ(outcome.status, plan::SolveStatus::kLimit);
  EXPECT_GT(outcome.lower_bound_bytes, 0);
  EXPECT_EQ(plan::simulate(problem, outcome.sequence)->peak_bytes, outcome.peak_bytes);
}

}  // namespace
}  // namespace lowtide::order
