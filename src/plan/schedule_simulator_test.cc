// The simulator against the model's definition, by hand and on random problems.
#include "plan/schedule_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::plan {
namespace {

std::vector<SchedOpId> sequence(std::initializer_list<size_t> ops) {
  std::vector<SchedOpId> result;
  for (size_t op : ops) result.push_back(SchedOpId(op));
  return result;
}

// 0 -> x(10) -> 1 -> y(10) -> 2 -> z(10), an output; x is also read by 2.
ScheduleProblem chain() {
  ScheduleProblem problem;
  problem.ops.resize(3);
  problem.values.push_back(value(10, 0, {1, 2}));
  problem.values.push_back(value(10, 1, {2}));
  problem.values.push_back(value(10, 2, {}, true));
  return problem;
}

TEST(Simulator, CountsInputsOutputsWorkspaceAndResidentBytes) {
  ScheduleProblem problem = chain();
  problem.resident_bytes = 100;
  problem.ops[SchedOpId(1)].workspace_bytes = 25;
  const auto profile = simulate(problem, sequence({0, 1, 2})).value();
  EXPECT_EQ(profile.step_bytes, (std::vector<int64_t>{110, 145, 130}));
  EXPECT_EQ(profile.after_bytes, (std::vector<int64_t>{110, 120, 110}));
  EXPECT_EQ(profile.peak_bytes, 145);
  EXPECT_EQ(profile.peak_step, 1u);
}

TEST(Simulator, TakesAnInPlacePairOnlyAtTheLastReader) {
  ScheduleProblem problem = chain();
  problem.in_place = {{SchedOpId(1), SchedValueId(0), SchedValueId(1)},
                      {SchedOpId(2), SchedValueId(0), SchedValueId(2)},
                      {SchedOpId(2), SchedValueId(1), SchedValueId(2)}};
  const auto profile = simulate(problem, sequence({0, 1, 2})).value();
  // Op 1 is not the last reader of x; op 2 is, and z takes over x (its first pair), so not y as
  // well.
  EXPECT_EQ(profile.step_bytes, (std::vector<int64_t>{10, 20, 20}));
  EXPECT_EQ(profile.reused, (std::vector<InPlacePair>{problem.in_place[1]}));
  EXPECT_EQ(simulate(problem, sequence({0, 1, 2}), false)->peak_bytes, 30);
}

TEST(Simulator, AnOutputOrAnotherSizeIsNeverOverwritten) {
  ScheduleProblem problem;
  problem.ops.resize(2);
  problem.values.push_back(value(10, 0, {1}, true));
  problem.values.push_back(value(10, 1, {}));
  problem.in_place = {{SchedOpId(1), SchedValueId(0), SchedValueId(1)}};
  EXPECT_EQ(simulate(problem, sequence({0, 1}))->peak_bytes, 20);
  problem.values[SchedValueId(0)].is_output = false;
  EXPECT_EQ(simulate(problem, sequence({0, 1}))->peak_bytes, 10);
  problem.values[SchedValueId(1)].bytes = 8;
  EXPECT_EQ(simulate(problem, sequence({0, 1}))->peak_bytes, 18);
}

TEST(Simulator, AValueWithoutReadersIsFreedAfterItsProducer) {
  ScheduleProblem problem;
  problem.ops.resize(2);
  problem.values.push_back(value(7, 0, {}));
  problem.values.push_back(value(5, 1, {}));
  const auto profile = simulate(problem, sequence({0, 1})).value();
  EXPECT_EQ(profile.peak_bytes, 7);
  EXPECT_EQ(profile.after_bytes, (std::vector<int64_t>{0, 0}));
}

TEST(Simulator, RefusesInvalidSequencesAndNamesTheOp) {
  ScheduleProblem problem = chain();
  problem.ops[SchedOpId(1)].name = "conv";
  const auto expect_error = [&](std::vector<SchedOpId> order, std::string_view part) {
    const auto profile = simulate(problem, order);
    ASSERT_FALSE(profile.has_value());
    EXPECT_EQ(profile.error().code, ErrorCode::kInput);
    EXPECT_NE(profile.error().message.find(part), std::string::npos) << profile.error().message;
  };
  expect_error(sequence({0, 1}), "2 runs");
  expect_error(sequence({1, 0, 2}), "conv");
  expect_error(sequence({0, 0, 1}), "twice");
  expect_error(sequence({0, 1, 3}), "op 3");
  problem.values[SchedValueId(0)].readers = {SchedOpId(2)};
  problem.control.emplace_back(SchedOpId(0), SchedOpId(1));
  expect_error(sequence({1, 0, 2}), "must come first");
}

TEST(Simulator, AnEmptyProblemHoldsItsResidentBytes) {
  ScheduleProblem problem;
  problem.resident_bytes = 9;
  EXPECT_EQ(simulate(problem, {})->peak_bytes, 9);
}

// By definition: at each step, which values are present.
TEST(Simulator, AgreesWithTheDefinitionOnRandomProblems) {
  Rng rng(41);
  for (int i = 0; i < 2000; ++i) {
    ScheduleProblem problem;
    const size_t n = 1 + rng.below(8);
    problem.ops.resize(n);
    for (SchedOpId op : problem.ops.ids()) problem.ops[op].workspace_bytes = rng.between(0, 5);
    for (uint64_t k = rng.below(10); k > 0; --k) {
      SchedValue v = value(rng.between(0, 9), rng.below(n), {}, rng.below(4) == 0);
      for (size_t r = v.producer.index() + 1; r < n; ++r)
        if (rng.below(3) == 0) v.readers.push_back(SchedOpId(r));
      problem.values.push_back(v);
    }
    problem.resident_bytes = rng.between(0, 4);
    std::vector<SchedOpId> order;
    for (SchedOpId op : problem.ops.ids()) order.push_back(op);
    const auto profile = simulate(problem, order).value();
    int64_t peak = problem.resident_bytes;
    for (size_t t = 0; t < n; ++t) {
      int64_t bytes = problem.resident_bytes + problem.ops[SchedOpId(t)].workspace_bytes;
      for (const SchedValue& v : problem.values) {
        const size_t made = v.producer.index();
        const size_t last = v.is_output ? n : v.readers.empty() ? made : v.readers.back().index();
        if (made <= t && t <= last) bytes += v.bytes;
      }
      EXPECT_EQ(profile.step_bytes[t], bytes);
      peak = std::max(peak, bytes);
    }
    EXPECT_EQ(profile.peak_bytes, peak);
  }
}

}  // namespace
}  // namespace lowtide::plan
