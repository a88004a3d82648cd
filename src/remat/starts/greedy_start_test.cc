// The greedy start on chains and on a captured training step: correct, within the budget where that
// is easy, and no more than a greedy answer.
#include "remat/starts/greedy_start.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

using plan::ScheduleProblem;

// `layers` forward ops, each read by the next and by its backward op; backward ops in reverse.
ScheduleProblem chain(int layers, bool may_rerun) {
  ScheduleProblem problem;
  std::vector<plan::SchedValueId> activations;
  const auto op = [&](double seconds) {
    plan::SchedOp made;
    made.seconds = seconds;
    made.may_rerun = may_rerun;
    return problem.ops.push_back(std::move(made));
  };
  const auto value = [&](plan::SchedOpId producer) {
    plan::SchedValue made;
    made.bytes = 100;
    made.producer = producer;
    return problem.values.push_back(std::move(made));
  };
  for (int i = 0; i < layers; ++i) {
    const auto forward = op(1);
    if (i > 0) problem.values[activations.back()].readers.push_back(forward);
    activations.push_back(value(forward));
  }
  auto gradient = value(op(1));
  problem.values[activations.back()].readers.push_back(problem.values[gradient].producer);
  for (int i = layers - 1; i >= 0; --i) {
    const auto backward = op(2);
    problem.values[gradient].readers.push_back(backward);
    problem.values[activations[static_cast<size_t>(i)]].readers.push_back(backward);
    gradient = value(backward);
  }
  return problem;
}

plan::SequenceProfile greedy_profile(const ScheduleProblem& problem,
                                     const std::vector<SchedOpId>& runs) {
  const auto profile = plan::simulate_sequence(problem, actions_of(runs));
  EXPECT_TRUE(profile.has_value());
  return profile ? *profile : plan::SequenceProfile{};
}

TEST(GreedyStart, FitsAChain) {
  for (const int layers : {10, 40, 100}) {
    ScheduleProblem problem = chain(layers, true);
    const plan::SequenceProfile once = greedy_profile(problem, incoming(problem));
    problem.budget_bytes = once.peak_bytes / 2 + 200;
    const GreedyStart start = greedy_start(ActionTable(problem), incoming(problem));
    const plan::SequenceProfile profile = greedy_profile(problem, start.sequence);
    EXPECT_LE(profile.peak_bytes, *problem.budget_bytes) << layers;
    EXPECT_GT(profile.seconds, once.seconds) << layers;
    EXPECT_LT(profile.seconds, 1.34 * once.seconds) << layers;  // each forward op again: a third
    EXPECT_GT(start.units, 0);
  }
}

// 20,001 ops, and a schedule of them that is three values above the budget: what cuts make of very
// deep steps.
TEST(GreedyStart, RelievesWholeMomentsOfVeryManyOps) {
  ScheduleProblem problem = chain(10'000, true);
  std::vector<SchedOpId> every_tenth;  // each segment of ten runs again before it is read backwards
  for (size_t i = 0; i <= 10'000; ++i) every_tenth.emplace_back(i);
  for (size_t end = 10'000; end > 0; end -= 10) {
    for (size_t i = end - 9; i < end && end < 10'000; ++i) every_tenth.emplace_back(i);
    for (size_t i = end; i-- > end - 10;) every_tenth.emplace_back(20'000 - i);
  }
  const plan::SequenceProfile before = greedy_profile(problem, every_tenth);
  problem.budget_bytes = before.peak_bytes - 300;
  const GreedyStart start = greedy_start(ActionTable(problem), every_tenth);
  const plan::SequenceProfile profile = greedy_profile(problem, start.sequence);
  EXPECT_LE(profile.peak_bytes, *problem.budget_bytes);
  EXPECT_LT(profile.seconds, 1.02 * before.seconds);
  EXPECT_LT(start.units, 500'000'000);
}

TEST(GreedyStart, GivesTheOrderBackWhereNothingIsToDoOrCanBe) {
  ScheduleProblem problem = chain(10, true);
  problem.budget_bytes = 1 << 20;
  EXPECT_EQ(greedy_start(ActionTable(problem), incoming(problem)).sequence, incoming(problem));
  problem = chain(10, false);
  problem.budget_bytes = 500;
  EXPECT_EQ(greedy_start(ActionTable(problem), incoming(problem)).sequence, incoming(problem));
}

TEST(GreedyStart, FitsACapturedStep) {
  const auto path = captured_steps() / "remat" / "resnet50_8.remat";
  auto problem = plan::parse_remat_file(*read_file(path.string()), path.string());
  ASSERT_TRUE(problem.has_value());
  problem->budget_bytes = int64_t{500} << 20;
  const GreedyStart start = greedy_start(ActionTable(*problem), incoming(*problem));
  const plan::SequenceProfile profile = greedy_profile(*problem, start.sequence);
  EXPECT_LE(profile.peak_bytes, *problem->budget_bytes);
  EXPECT_LT(profile.seconds, 1.3 * greedy_profile(*problem, incoming(*problem)).seconds);
  EXPECT_LT(start.units, 40'000'000);
}

}  // namespace
}  // namespace lowtide::remat
