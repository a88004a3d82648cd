// Cuts of intervals against those of their problems, and against every order of an interval.
#include "order/interval_cut.h"

#include <gtest/gtest.h>

#include "order/cut_bound.h"
#include "order/order_graph.h"
#include "order/testing/random_order.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

const RandomShape kCutShapes[] = {
    {},
    {.max_ops = 24, .reader_rate = 0.08, .control_rate = 0.01},
    {.max_bytes = 3, .window = 4, .reader_rate = 0.4},
    {.extra_value_rate = 0.9, .output_rate = 0.2, .in_place_rate = 0.9, .control_rate = 0.1},
    {.reader_rate = 0.15, .workspace_rate = 0.6, .in_place_rate = 0.7, .source_rate = 0.4},
};

TEST(IntervalCut, IsThatOfTheIntervalsProblem) {
  Rng rng(51);
  WorkBudget work;
  int below = 0;
  for (int i = 0; i < 4000; ++i) {
    plan::ScheduleProblem problem = random_problem(kCutShapes[i % 5], rng);
    if (i % 3 == 0) add_sums(problem, 0.5, rng);
    const plan::ProblemIndex index(problem);
    const std::vector<OpId> sequence = random_order(problem, rng);
    const auto position = positions_of(sequence);
    const PlacedOrder order{problem, index, sequence, position};
    const plan::ScheduleProfile profile = plan::simulate(problem, sequence).value();
    const auto alive = [&](int64_t at) {
      return at == 0 ? problem.resident_bytes : profile.after_bytes[at - 1];
    };
    const int64_t n = sequence.size(), begin = rng.between(0, n - 1);
    const Interval interval{begin, rng.between(begin + 1, n)};
    const IntervalProblem own = interval_problem(order, interval, alive(begin));
    const OrderGraph graph = make_order_graph(own.problem);
    for (int64_t at = interval.begin; at < interval.end; ++at) {
      const int64_t bytes = interval_cut(order, interval, at, alive(at), work);
      const OpCut cut = cut_of(graph, OpId(at - interval.begin + 1), work);
      EXPECT_EQ(bytes, own.problem.resident_bytes + cut.bytes) << "position " << at;
      EXPECT_LE(bytes, profile.step_bytes[at]);
      below += bytes < profile.step_bytes[at];
    }
    if (HasFailure())
      FAIL() << "problem " << i << " from " << interval.begin << " to " << interval.end << "\n"
             << plan::print(problem);
  }
  EXPECT_GT(below, 4000);
}

// The op of each position is held against every order that is drawn.
TEST(IntervalCut, NoOrderOfTheIntervalIsBelow) {
  Rng rng(52);
  WorkBudget work;
  int met = 0;
  for (int i = 0; i < 300; ++i) {
    const plan::ScheduleProblem problem = random_problem(kCutShapes[i % 5], rng);
    const plan::ProblemIndex index(problem);
    const std::vector<OpId> sequence = random_order(problem, rng);
    const auto position = positions_of(sequence);
    const PlacedOrder order{problem, index, sequence, position};
    const plan::ScheduleProfile profile = plan::simulate(problem, sequence).value();
    const int64_t n = sequence.size();
    const Interval interval{n / 4, n - n / 4};
    const std::span<const OpId> inside = order.sequence.subspan(n / 4, interval.length());
    for (int drawn = 0; drawn < 20; ++drawn) {
      std::vector<OpId> other = sequence;
      std::ranges::copy(random_order(problem, inside, rng), other.begin() + n / 4);
      const plan::ScheduleProfile found = plan::simulate(problem, other).value();
      for (int64_t at = interval.begin; at < interval.end; ++at) {
        const int64_t step = position[other[at]];
        const int64_t alive = step == 0 ? problem.resident_bytes : profile.after_bytes[step - 1];
        const int64_t bytes = interval_cut(order, interval, step, alive, work);
        EXPECT_LE(bytes, found.step_bytes[at]);
        met += bytes == found.step_bytes[at];
      }
    }
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(met, 5000);
}

}  // namespace
}  // namespace lowtide::order
