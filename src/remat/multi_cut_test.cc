// Bounds from several cuts against the truth: any multipliers on any chain of ops, and those that
// the ascent finds, on small random problems; known values on captured steps.
#include "remat/multi_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/test_data.h"
#include "plan/remat_text.h"
#include "plan/schedule_test_problems.h"
#include "plan/sequence_simulator.h"
#include "remat/multi_cut_network.h"
#include "remat/remat_oracle.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;

double once_seconds(const ScheduleProblem& problem) {
  double sum = 0;
  for (const auto& op : problem.ops) sum += op.seconds;
  return sum;
}

// A budget between what one op needs and what the incoming order does.
int64_t some_budget(const ScheduleProblem& problem, Rng& rng) {
  std::vector<plan::SchedAction> once;
  for (SchedOpId op : problem.ops.ids()) once.push_back(plan::SchedAction::run(op));
  const int64_t top = plan::simulate_sequence(problem, once)->peak_bytes;
  return std::max<int64_t>(1, top - rng.between(1, std::max<int64_t>(1, top / 3)));
}

std::vector<SchedOpId> random_chain(const StepGraph& graph, Rng& rng) {
  std::vector<SchedOpId> chain;
  for (SchedOpId op : graph.problem->ops.ids()) {
    if (rng.below(2) == 0) continue;
    if (chain.empty() || sides_of(graph, chain.back())[op] == Side::kAfter) chain.push_back(op);
  }
  return chain;
}

Multipliers random_multipliers(const MultiCutNetwork& net, const StepGraph& graph, Rng& rng) {
  Multipliers m = net.start();
  const int64_t most = graph.once_ticks / 4;
  for (int64_t& price : m.price) price = rng.between(0, most / 4) * kOne;
  for (size_t k = 0; k < net.cuts(); ++k)
    for (SchedValueId v : graph.problem->values.ids())
      if (net.has_worth(k, v) && rng.below(2) == 0) m.worth[k][v] = rng.between(0, most);
  for (SchedOpId op : graph.ticks.ids())
    if (net.has_credit(op) && rng.below(2) == 0) m.credit[op] = rng.between(0, most);
  return m;
}

TEST(MultiCut, AnyMultipliersOnAnyChainStayBelowTheOptimum) {
  Rng rng(21);
  int64_t checked = 0, positive = 0;
  for (int i = 0; i < 2400; ++i) {
    RandomSchedule shape{.min_ops = 4, .max_ops = 6};
    if (i % 2) shape.reader_rate = 0.5, shape.in_place_rate = 0.6;
    if (i % 3 == 0) shape.control_rate = 0.12, shape.rerun_rate = 1;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const auto best = RematOracle(problem).fastest();
    if (!best) continue;
    const StepGraph graph(problem);
    for (int k = 0; k < 20; ++k) {
      const auto chain = random_chain(graph, rng);
      if (chain.empty()) continue;
      MultiCutNetwork net(graph, chain);
      Violations violations;
      const int64_t ticks = net.solve(random_multipliers(net, graph, rng), violations);
      ++checked;
      positive += ticks > 0;
      EXPECT_LE(static_cast<double>(ticks) / graph.ticks_per_second,
                best->seconds - once_seconds(problem) + 1e-9)
          << "problem " << i;
    }
  }
  EXPECT_GT(checked, 5000);
  EXPECT_GT(positive, 10);
}

TEST(MultiCut, OneCutWithoutMultipliersIsTheClosureCut) {
  Rng rng(22);
  int64_t checked = 0;
  for (int i = 0; i < 4000; ++i) {
    RandomSchedule shape{.min_ops = 5, .max_ops = 12};
    if (i % 2) shape.control_rate = 0.15, shape.in_place_rate = 0.6;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const CutBoundResult single = closure_cut(problem);
    if (!single.feasible || !single.op) continue;
    const StepGraph graph(problem);
    MultiCutNetwork net(graph, {*single.op});
    Multipliers m = net.start();
    m.price[0] = single.prices.per_byte;
    Violations violations;
    EXPECT_EQ(net.solve(m, violations), single.bound_ticks) << "problem " << i;
    ++checked;
  }
  EXPECT_GT(checked, 500);
}

TEST(MultiCut, LiesBetweenTheClosureCutAndTheOptimum) {
  Rng rng(23);
  int64_t better = 0, checked = 0;
  for (int i = 0; i < 3200; ++i) {
    RandomSchedule shape{.min_ops = 5, .max_ops = 7, .reader_rate = 0.3, .rerun_rate = 1};
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const auto best = RematOracle(problem).fastest();
    const CutBoundResult single = closure_cut(problem);
    if (!best || !single.op) continue;
    const MultiCutResult bound =
        multi_cut(problem, single, {.order = {}, .trial_rounds = 30, .final_rounds = 60});
    EXPECT_GE(bound.lower_bound_seconds, single.lower_bound_seconds);
    EXPECT_LE(bound.lower_bound_seconds, best->seconds + 1e-9) << "problem " << i;
    better += bound.cuts.size() > 1;
    ++checked;
  }
  EXPECT_GT(checked, 200);
  EXPECT_GT(better, 5);
  RecordProperty("checked",
                 std::to_string(checked) + ", more than one cut " + std::to_string(better));
}

struct Known {
  const char* name;
  int64_t budget_mib;
  double percent;
};
class SeveralCuts : public testing::TestWithParam<Known> {};

TEST_P(SeveralCuts, ReachTheKnownBound) {
  const auto path = test_data() / "remat" / (std::string(GetParam().name) + ".remat");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  auto problem = plan::parse_remat_file(read_file(path.string()).value(), path.string());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  problem->budget_bytes = GetParam().budget_mib << 20;
  const CutBoundResult single = closure_cut(*problem);
  const MultiCutResult bound = multi_cut(*problem, single);
  EXPECT_GE(100 * bound.bound_seconds / once_seconds(*problem), GetParam().percent);
  EXPECT_LT(bound.work, 600'000'000);
}
INSTANTIATE_TEST_SUITE_P(All, SeveralCuts,
                         testing::Values(Known{"unet_2", 565, 17.3}, Known{"unet_2", 580, 14.4},
                                         Known{"unet_2", 600, 10.8}, Known{"unet_2", 650, 5.94},
                                         Known{"resnet50_8", 410, 19.3},
                                         Known{"resnet50_8", 450, 15.89}),
                         [](const auto& test) {
                           return std::string(test.param.name) + "_" +
                                  std::to_string(test.param.budget_mib);
                         });

}  // namespace
}  // namespace lowtide::remat
