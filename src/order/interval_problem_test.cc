// An interval's problem against the whole one: every order of the interval has the same steps in
// both, with the same values reused in place.
#include "order/interval_problem.h"

#include <gtest/gtest.h>

#include "order/testing/random_order.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

using plan::SchedOpId;
using plan::ScheduleProblem;

const RandomShape kIntervalShapes[] = {
    {},
    {.max_bytes = 3, .window = 4, .reader_rate = 0.4},
    {.extra_value_rate = 0.9, .output_rate = 0.2, .in_place_rate = 0.9, .control_rate = 0.1},
    {.reader_rate = 0.15, .workspace_rate = 0.6, .in_place_rate = 0.7, .source_rate = 0.4},
};

// One order of the interval in both problems.
void expect_same_steps(const ScheduleProblem& problem, const std::vector<SchedOpId>& sequence,
                       Interval interval, const IntervalProblem& own, Rng& rng) {
  const std::vector<SchedOpId> inside = random_order(own.problem, rng);
  ASSERT_EQ(inside[0], SchedOpId(0));
  std::vector<SchedOpId> whole = sequence;
  for (size_t i = 1; i < inside.size(); ++i)
    whole[interval.begin + i - 1] = sequence[interval.begin + inside[i].index() - 1];
  const auto expected = plan::simulate(problem, whole);
  const auto found = plan::simulate(own.problem, inside);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  ASSERT_TRUE(found.has_value()) << found.error().message;
  for (size_t i = 1; i < inside.size(); ++i) {
    EXPECT_EQ(found->step_bytes[i], expected->step_bytes[interval.begin + i - 1]) << "step " << i;
    EXPECT_EQ(found->after_bytes[i], expected->after_bytes[interval.begin + i - 1]) << "step " << i;
  }
  std::vector<plan::InPlacePair> reused;
  for (const plan::InPlacePair& pair : found->reused)
    reused.push_back({sequence[interval.begin + pair.op.index() - 1], own.value[pair.input],
                      own.value[pair.output]});
  std::vector<plan::InPlacePair> reused_in_whole;
  for (const plan::InPlacePair& pair : expected->reused)
    if (interval.contains(positions_of(whole)[pair.op])) reused_in_whole.push_back(pair);
  EXPECT_EQ(reused, reused_in_whole);
}

TEST(IntervalProblem, HasTheStepsOfTheWholeOrder) {
  Rng rng(31);
  int reused = 0;
  for (int i = 0; i < 3000; ++i) {
    ScheduleProblem problem = random_problem(kIntervalShapes[i % 4], rng);
    if (i % 3 == 0) add_sums(problem, 0.5, rng);
    const plan::ProblemIndex index(problem);
    const std::vector<SchedOpId> sequence = random_order(problem, rng);
    const auto profile = plan::simulate(problem, sequence);
    ASSERT_TRUE(profile.has_value());
    const int64_t n = sequence.size(), begin = rng.between(0, n - 1);
    const Interval interval{begin, rng.between(begin + 1, n)};
    const int64_t alive = begin == 0 ? problem.resident_bytes : profile->after_bytes[begin - 1];
    const auto position = positions_of(sequence);
    const IntervalProblem own =
        interval_problem({problem, index, sequence, position}, interval, alive);
    const auto checked = plan::check(own.problem);
    ASSERT_TRUE(checked.has_value()) << checked.error().message;
    ASSERT_EQ(own.problem.ops.size(), static_cast<size_t>(interval.length() + 1));
    ASSERT_EQ(own.value.size(), own.problem.values.size());
    for (int order = 0; order < 3; ++order)
      expect_same_steps(problem, sequence, interval, own, rng);
    for (const plan::InPlacePair& pair : own.problem.in_place)
      reused += own.problem.values[pair.input].producer == SchedOpId(0);
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(reused, 1000);  // of what is there before
}

// x is freed inside, y is alive across; z stays for who reads it behind.
TEST(IntervalProblem, KnowsWhatItFreesAndWhatStays) {
  ProblemMaker make;
  const auto a = make.op(), b = make.op(7), c = make.op(), d = make.op();
  const auto x = make.value(a, 10), y = make.value(a, 20), z = make.value(b, 30);
  make.read(b, x);
  make.read(c, x);
  make.read(d, y);
  make.read(d, z);
  make.problem.resident_bytes = 100;
  const std::vector<SchedOpId> sequence = {a, b, c, d};
  const plan::ProblemIndex index(make.problem);
  const auto position = positions_of(sequence);
  const IntervalProblem own =
      interval_problem({make.problem, index, sequence, position}, {1, 3}, 130);
  EXPECT_EQ(own.problem.resident_bytes, 120);
  ASSERT_EQ(own.problem.ops.size(), 3u);
  EXPECT_EQ(own.problem.ops[SchedOpId(1)].workspace_bytes, 7);
  ASSERT_EQ(own.value.raw(), (std::vector{x, z}));
  const plan::SchedValue& freed = own.problem.values[plan::SchedValueId(0)];
  EXPECT_EQ(freed.producer, SchedOpId(0));
  EXPECT_EQ(freed.readers, (std::vector{SchedOpId(1), SchedOpId(2)}));
  EXPECT_FALSE(freed.is_output);
  EXPECT_TRUE(own.problem.values[plan::SchedValueId(1)].is_output);
}

}  // namespace
}  // namespace lowtide::order
