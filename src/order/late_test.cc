// The claim of order/late.h, by brute force: orders in which each late op runs right before its
// first successor reach the optimum over all orders.
#include "order/late.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "order/order.h"
#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

// The least peak over the orders that late ops leave, resident bytes included.
int64_t best_with_late_blocks(const plan::ScheduleProblem& problem, const OrderGraph& graph,
                              const SubsetDp& dp) {
  std::vector<int64_t> best(size_t{1} << graph.size(), SubsetDp::kNever);
  best[0] = problem.resident_bytes;
  for (uint32_t set : dp.closed_sets()) {  // ascending, so subsets come first
    if (best[set] == SubsetDp::kNever) continue;
    for (size_t v = 0; v < graph.size(); ++v) {
      if (graph.late[OpId(v)]) continue;
      uint32_t at = set;
      int64_t peak = best[set];
      for (OpId late : graph.late_before[OpId(v)]) {
        if (at >> late.index() & 1) continue;
        EXPECT_TRUE(dp.can_run(at, late.index()));
        peak = std::max(peak, dp.step_peak(at, late.index()));
        at |= 1u << late.index();
      }
      if (!dp.can_run(at, v)) continue;
      int64_t& next = best[at | 1u << v];
      next = std::min({next, std::max(peak, dp.step_peak(at, v))});
    }
  }
  return best.back();
}

TEST(LateOps, RunningThemByNeedLosesNothing) {
  Rng rng(31);
  const RandomShape shapes[] = {
      {.workspace_rate = 0.5, .in_place_rate = 0.9, .control_rate = 0.1, .source_rate = 0.4},
      {.max_bytes = 40, .reader_rate = 0.3, .extra_value_rate = 0.6, .source_rate = 0.5},
      {.max_bytes = 3,
       .reader_rate = 0.15,
       .output_rate = 0.3,
       .workspace_rate = 0.8,
       .source_rate = 0.5},
      {.max_bytes = 20,
       .window = 4,
       .reader_rate = 0.25,
       .in_place_rate = 0.8,
       .control_rate = 0.01,
       .source_rate = 0.2}};  // chains
  size_t late = 0, inner = 0, refused = 0;
  for (int i = 0; i < 12000; ++i) {
    const auto problem = random_problem(shapes[i % 4], rng);
    const SubsetDp dp(problem);
    const OrderGraph graph = make_order_graph(problem);
    for (OpId op : graph.late.ids()) {
      late += graph.late[op] != 0;
      inner += graph.late[op] && !graph.preds[op].empty();
      refused += !graph.late[op] && graph.preds[op].empty() && !graph.succs[op].empty();
    }
    EXPECT_EQ(best_with_late_blocks(problem, graph, dp), dp.optimum()) << plan::print(problem);
    if (HasFailure()) FAIL() << "problem " << i;
  }
  EXPECT_GT(late, 10000u);
  EXPECT_GT(inner, 1000u);
  EXPECT_GT(refused, 1000u);
}

// A conversion with more workspace than its reader needs must run while little is live.
TEST(LateOps, OneWithALargeWorkspaceIsNotLate) {
  for (const int64_t workspace : {3, 30}) {
    ProblemMaker make;
    const auto conversion = make.op(workspace), first = make.op(), reader = make.op();
    const auto weight = make.value(conversion, 1), x = make.value(first, 20);
    make.read(reader, weight);
    make.read(reader, x);
    make.value(reader, 5, true);
    const OrderGraph graph = make_order_graph(make.problem);
    EXPECT_EQ(graph.late[conversion] != 0, workspace == 3);
    const auto outcome = solve(make.problem);
    EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal);
    EXPECT_EQ(outcome.peak_bytes, workspace == 3 ? 26 : 31);
  }
}

// Cut, cast and converted before it is read.
TEST(LateOps, AChainIsLateAsAWhole) {
  ProblemMaker make;
  const auto cut = make.op(), cast = make.op(), first = make.op(), reader = make.op();
  const auto piece = make.value(cut, 4);
  make.read(cast, piece);
  const auto weight = make.value(cast, 8), x = make.value(first, 20);
  make.read(reader, weight);
  make.read(reader, x);
  make.value(reader, 5, true);
  const OrderGraph graph = make_order_graph(make.problem);
  EXPECT_TRUE(graph.late[cut] && graph.late[cast]);
  const OrderGraph cheap_reader = [&] {
    auto problem = make.problem;  // with a reader that needs less than the cast has besides
    problem.values[plan::SchedValueId(3)].bytes = 3;
    return make_order_graph(problem);
  }();
  EXPECT_FALSE(cheap_reader.late[cast]);
  EXPECT_TRUE(cheap_reader.late[cut]);  // it is late for the cast, at least
  EXPECT_EQ(solve(make.problem).peak_bytes, 33);
}

TEST(LateOps, SmallTrainingStepsWithConvertedWeightsMeetTheSubsetDp) {
  Rng rng(32);
  for (int i = 0; i < 40; ++i) {
    const auto problem = converted_weights_training(2, i % 2 == 0 ? 40 : 5, 20, rng);
    ASSERT_LE(problem.ops.size(), 20u);
    const auto outcome = solve(problem);
    EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal);
    EXPECT_EQ(outcome.peak_bytes, SubsetDp(problem).optimum());
    if (HasFailure()) FAIL() << plan::print(problem);
  }
}

}  // namespace
}  // namespace lowtide::order
