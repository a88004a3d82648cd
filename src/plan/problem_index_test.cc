// Each list against its definition, on random problems.
#include "plan/problem_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "plan/testing/schedule_test_problems.h"

namespace lowtide::plan {
namespace {

template <class T>
std::vector<T> copy_of(std::span<const T> list) {
  return {list.begin(), list.end()};
}

bool holds(const std::vector<SchedOpId>& ops, SchedOpId op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

void expect_lists_of_op(const ScheduleProblem& problem, const ProblemIndex& index, SchedOpId op) {
  std::vector<SchedValueId> reads, makes, writes;
  for (const SchedValueId v : problem.values.ids()) {
    const SchedValue& value = problem.values[v];
    if (holds(value.readers, op) || (op == index.end() && value.is_output)) reads.push_back(v);
    if (value.producer == op) makes.push_back(v);
    if (holds(value.writers, op)) writes.push_back(v);
  }
  EXPECT_EQ(copy_of(index.reads[op]), reads);
  EXPECT_EQ(copy_of(index.makes[op]), makes);
  EXPECT_EQ(copy_of(index.writes[op]), writes);
  std::vector<SchedOpId> before, after;
  for (const auto& [first, second] : problem.control) {
    if (second == op) before.push_back(first);
    if (first == op) after.push_back(second);
  }
  EXPECT_EQ(copy_of(index.waits_for[op]), before);
  EXPECT_EQ(copy_of(index.waits_after[op]), after);
  std::vector<size_t> pairs;
  for (size_t i = 0; i < problem.in_place.size(); ++i)
    if (problem.in_place[i].op == op) pairs.push_back(i);
  EXPECT_EQ(copy_of(index.pairs[op]), pairs);
}

TEST(ProblemIndex, ListsAreWhatTheProblemSays) {
  Rng rng(41);
  size_t outputs = 0, writes = 0, control = 0, pairs = 0;
  for (int i = 0; i < 200; ++i) {
    RandomSchedule shape{.min_ops = 1, .max_ops = 20};
    shape.in_place_rate = 0.4;
    shape.control_rate = 0.05;
    shape.output_rate = 0.2;
    if (i % 2) shape.link_rate = 1, shape.resident_rate = 0.2;
    const ScheduleProblem problem = random_schedule_problem(shape, rng);
    const ProblemIndex index(problem);
    ASSERT_EQ(index.op_count, problem.ops.size());
    ASSERT_EQ(index.value_count, problem.values.size());
    EXPECT_FALSE(index.is_op(index.begin()) || index.is_op(index.end()));
    for (size_t id = 0; id < index.rows(); ++id) expect_lists_of_op(problem, index, SchedOpId(id));
    for (const SchedValueId v : problem.values.ids()) {
      std::vector<SchedOpId> readers = problem.values[v].readers;
      if (problem.values[v].is_output) readers.push_back(index.end());
      EXPECT_EQ(copy_of(index.readers[v]), readers);
      EXPECT_TRUE(std::is_sorted(readers.begin(), readers.end()));
      writes += problem.values[v].writers.size();
    }
    outputs += index.reads[index.end()].size();
    EXPECT_TRUE(index.reads[index.begin()].empty() && index.makes[index.end()].empty());
    control += problem.control.size();
    pairs += problem.in_place.size();
  }
  EXPECT_GT(outputs, 50u);
  EXPECT_GT(writes, 50u);
  EXPECT_GT(control, 50u);
  EXPECT_GT(pairs, 50u);
}

TEST(ProblemIndex, OfNothingHasTheBordersAlone) {
  const ProblemIndex index((ScheduleProblem()));
  EXPECT_EQ(index.rows(), 2u);
  EXPECT_TRUE(index.reads[index.end()].empty());
}

}  // namespace
}  // namespace lowtide::plan
