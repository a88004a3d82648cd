// The table of actions against the problem itself, of random problems; and sizes beyond what
// doubles hold exactly.
#include "remat/search/action_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "plan/testing/schedule_test_problems.h"
#include "plan/tick_scale.h"

namespace lowtide::remat {
namespace {

template <class T>
std::vector<T> sorted(std::span<const T> list) {
  std::vector<T> result(list.begin(), list.end());
  std::sort(result.begin(), result.end());
  return result;
}

plan::ScheduleProblem random_problem(Rng& rng) {
  plan::RandomSchedule shape;
  shape.max_ops = 14;
  shape.in_place_rate = 0.6;
  shape.output_rate = 0.2;
  plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  problem.budget_bytes = problem.resident_bytes + rng.between(0, 4 * shape.max_bytes);
  return problem;
}

// By definition: what an action reads, makes and waits for.
void expect_lists(const plan::ScheduleProblem& problem, const ActionTable& table,
                  SchedOpId action) {
  std::vector<SchedValueId> reads, makes;
  for (const SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    if (value.producer == action) makes.push_back(v);
    const bool reader =
        std::find(value.readers.begin(), value.readers.end(), action) != value.readers.end();
    if (reader || (action == table.end() && value.is_output)) reads.push_back(v);
  }
  EXPECT_EQ(sorted(table.reads(action)), reads);
  EXPECT_EQ(sorted(table.makes(action)), makes);
  std::vector<SchedOpId> before, after;
  for (const auto& [first, second] : problem.control) {
    if (second == action) before.push_back(first);
    if (first == action) after.push_back(second);
  }
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  EXPECT_EQ(sorted(table.before(action)), before);
  EXPECT_EQ(sorted(table.after(action)), after);
  size_t pairs = 0;
  for (const plan::InPlacePair& pair : problem.in_place) {
    const plan::SchedValue& input = problem.values[pair.input];
    if (pair.op != action || input.is_output) continue;
    if (input.bytes != problem.values[pair.output].bytes) continue;
    ASSERT_LT(pairs, table.pairs(action).size());
    EXPECT_EQ(table.pairs(action)[pairs].input, pair.input);
    EXPECT_EQ(table.pairs(action)[pairs++].output, pair.output);
  }
  EXPECT_EQ(table.pairs(action).size(), pairs);
}

TEST(ActionTable, SaysWhatTheProblemSays) {
  Rng rng(21);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const plan::ScheduleProblem problem = random_problem(rng);
    ASSERT_TRUE(plan::check(problem));
    const ActionTable table(problem);
    ASSERT_EQ(table.op_count(), problem.ops.size());
    ASSERT_EQ(table.end().index(), problem.ops.size() + 1);
    for (const SchedOpId action : table.actions()) expect_lists(problem, table, action);
    EXPECT_FALSE(table.is_op(table.begin()) || table.is_op(table.end()));
    EXPECT_EQ(table.cost(table.begin()) + table.cost(table.end()), 0);
    const plan::TickScale ticks(problem);
    int64_t once = 0;
    for (const SchedOpId op : table.ops()) {
      once += ticks.down(problem.ops[op].seconds);
      EXPECT_EQ(table.cost(op), ticks.down(problem.ops[op].seconds));
      EXPECT_EQ(table.may_rerun(op), problem.ops[op].may_rerun);
      EXPECT_EQ(table.workspace(op), static_cast<double>(problem.ops[op].workspace_bytes));
    }
    EXPECT_EQ(table.once_cost(), once);
    for (const SchedValueId v : table.values()) {
      EXPECT_EQ(table.producer(v), problem.values[v].producer);
      EXPECT_EQ(table.bytes(v), static_cast<double>(problem.values[v].bytes));
    }
    EXPECT_FALSE(table.is_rounded());
    EXPECT_EQ(table.capacity(),
              static_cast<double>(*problem.budget_bytes - problem.resident_bytes));
    plan::ScheduleProblem unlimited = problem;
    unlimited.budget_bytes.reset();
    EXPECT_EQ(ActionTable(unlimited).capacity(), std::numeric_limits<double>::infinity());
  }
}

// Whatever set of values fits by the table fits by bytes.
TEST(ActionTable, RoundsHugeSizesToTheSafeSide) {
  Rng rng(22);
  int fit = 0;
  for (int round = 0; round < 200; ++round) {
    plan::ScheduleProblem problem = random_problem(rng);
    for (plan::SchedValue& value : problem.values)
      value.bytes = rng.between(int64_t{1} << 49, int64_t{1} << 52);
    problem.budget_bytes = problem.resident_bytes + rng.between(0, int64_t{1} << 54);
    const ActionTable table(problem);
    int64_t bytes = 0;
    double counted = 0;
    for (const SchedValueId v : table.values()) {
      EXPECT_EQ(table.bytes(v), std::floor(table.bytes(v)));
      if (rng.below(2) == 0) continue;
      bytes += problem.values[v].bytes;
      counted += table.bytes(v);
    }
    EXPECT_LE(counted, 0x1.0p52);
    if (counted > table.capacity()) continue;
    ++fit;
    EXPECT_LE(bytes, *problem.budget_bytes - problem.resident_bytes);
  }
  EXPECT_GT(fit, 50);
}

}  // namespace
}  // namespace lowtide::remat
