// Bounds from multi-cuts against the truth: any multipliers on any of them, and those that the
// ascent finds, on small random problems; known values on captured steps.
#include "remat/bounds/multi_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/schedule_text.h"
#include "plan/sequence_simulator.h"
#include "plan/sequence_text.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/multi_cut_network.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/bounds/testing/known_bound.h"
#include "remat/bounds/testing/remat_oracle.h"
#include "support/long_checks.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;

Multipliers random_multipliers(const MultiCutNetwork& net, const StepGraph& graph, Rng& rng) {
  Multipliers m = net.start();
  const int64_t most = graph.once_ticks / 4;
  for (int64_t& price : m.price) price = rng.between(0, most / 4) * kOne;
  for (size_t k = 0; k < net.cuts(); ++k)
    for (SchedValueId v : graph.problem->values.ids())
      if (net.has_worth(k, v) && rng.below(2) == 0) m.worth[k][v] = rng.between(0, most);
  for (SchedOpId op : graph.ticks.ids())
    if (net.has_credit(op) && rng.below(2) == 0) m.credit[op] = rng.between(0, most);
  if (!graph.link) return m;
  for (size_t k = 0; k <= net.cuts(); ++k) {
    if (rng.below(2)) m.shares.store[k] = rng.between(0, kOne);
    if (rng.below(2)) m.shares.load[k] = rng.between(0, kOne - m.shares.store[k]);
    if (k == net.cuts()) break;
    for (SchedValueId v : graph.problem->values.ids())
      if (net.has_worth(k, v) && rng.below(3) == 0) m.copy[k][v] = rng.between(-most, most);
  }
  return m;
}

const RandomSchedule kWithLink{.min_ops = 3,
                               .max_ops = 5,
                               .max_bytes = 5,
                               .link_rate = 1,
                               .resident_rate = 0.1,
                               .moved_parts_rate = 0.3};
constexpr OracleOptions kSmallOracle{.max_states = 60'000};

// One multiplier, share or price, changed.
void change_one(const MultiCutNetwork& net, const StepGraph& graph, Rng& rng, Multipliers& m) {
  const int64_t most = graph.once_ticks / 4;
  const auto k = static_cast<size_t>(rng.below(net.cuts()));
  const SchedValueId v(rng.below(graph.problem->values.size()));
  const SchedOpId op(rng.below(graph.size()));
  const auto segment = static_cast<size_t>(rng.below(net.cuts() + 1));
  switch (rng.below(6)) {
    case 0:
      m.price[k] = rng.between(0, most / 2) * kOne;
      break;
    case 1:
      if (net.has_worth(k, v)) m.worth[k][v] = rng.between(0, most);
      break;
    case 2:
      if (net.has_worth(k, v)) m.copy[k][v] = rng.between(-most, most);
      break;
    case 3:
      m.shares.store[segment] = rng.between(0, kOne - m.shares.load[segment]);
      break;
    case 4:
      m.shares.load[segment] = rng.between(0, kOne - m.shares.store[segment]);
      break;
    default:
      m.credit[op] = rng.below(2) ? rng.between(0, graph.ticks[op]) : net.least_cost(op, m.shares);
  }
}

// Climbs at random, so that bounds come as close to the truth as they can.
TEST(MultiCut, AnySharesAndCopiesStayBelowTheOptimumWithALink) {
  Rng rng(24);
  int64_t chains = 0, positive = 0, tight = 0;
  for (int i = 0; i < some_of(400, 5); ++i) {
    RandomSchedule shape = kWithLink;
    if (i % 2) shape.max_ops = 4, shape.resident_rate = 0.4;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    if (problem.values.empty()) continue;
    problem.budget_bytes = some_budget(problem, rng);
    RematOracle oracle(problem, kSmallOracle);
    const auto best = oracle.fastest();
    if (!best || !oracle.complete()) continue;
    const StepGraph graph(problem);
    const double extra = best->seconds - once_seconds(problem);
    for (int k = 0; k < 6; ++k) {
      const auto cuts = random_multi_cut(graph, rng);
      if (cuts.empty()) continue;
      MultiCutNetwork net(graph, cuts);
      Violations violations;
      Multipliers m = net.start();
      int64_t reached = net.solve(m, violations);
      for (int step = 0; step < 400; ++step) {
        Multipliers next = m;
        change_one(net, graph, rng, next);
        if (rng.below(2)) change_one(net, graph, rng, next);
        const int64_t ticks = net.solve(next, violations);
        if (ticks < reached) continue;
        reached = ticks;
        m = std::move(next);
      }
      const double bound = graph.scale.seconds(reached);
      ++chains;
      positive += bound > 0.01;
      tight += bound > 0.01 && bound > 0.95 * extra;
      ASSERT_LE(bound, extra + 1e-9) << "problem " << i << "\n"
                                     << plan::print(problem) << plan::print(best->sequence);
    }
  }
  RecordProperty("chains", std::to_string(chains) + ", positive " + std::to_string(positive) +
                               ", tight " + std::to_string(tight));
  EXPECT_GT(chains, some_of(300, 5));
  EXPECT_GT(positive, some_of(50, 5));
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
      const auto cuts = random_multi_cut(graph, rng);
      if (cuts.empty()) continue;
      MultiCutNetwork net(graph, cuts);
      Violations violations;
      const int64_t ticks = net.solve(random_multipliers(net, graph, rng), violations);
      ++checked;
      positive += ticks > 0;
      EXPECT_LE(graph.scale.seconds(ticks), best->seconds - once_seconds(problem) + 1e-9)
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
    better += bound.certificate.time && bound.certificate.time->cuts.size() > 1;
    ++checked;
  }
  EXPECT_GT(checked, 200);
  EXPECT_GT(better, 5);
  RecordProperty("checked",
                 std::to_string(checked) + ", more than one cut " + std::to_string(better));
}

TEST(MultiCut, LiesBetweenTheClosureCutAndTheOptimumWithALink) {
  Rng rng(25);
  int64_t better = 0, checked = 0;
  for (int i = 0; i < some_of(2000, 2); ++i) {
    RandomSchedule shape = kWithLink;
    shape.min_ops = 4, shape.reader_rate = 0.45, shape.rerun_rate = 0.3;
    if (i % 2) shape.resident_rate = 0;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const CutBoundResult single = closure_cut(problem);
    if (!single.op || !single.feasible) continue;
    RematOracle oracle(problem, kSmallOracle);
    const auto best = oracle.fastest();
    if (!best || !oracle.complete()) continue;
    const MultiCutResult bound =
        multi_cut(problem, single, {.order = {}, .trial_rounds = 30, .final_rounds = 60});
    EXPECT_GE(bound.lower_bound_seconds, single.lower_bound_seconds);
    EXPECT_LE(bound.lower_bound_seconds, best->seconds + 1e-9) << "problem " << i;
    better += bound.lower_bound_seconds > single.lower_bound_seconds;
    ++checked;
  }
  RecordProperty("checked", std::to_string(checked) + ", better " + std::to_string(better));
  EXPECT_GT(checked, some_of(60, 2));
  EXPECT_GT(better, long_checks() ? 5 : 1);
}

TEST(MultiCut, OneCutWithALinkIsAtLeastTheClosureCut) {
  Rng rng(26);
  int64_t checked = 0, more = 0;
  for (int i = 0; i < 4000; ++i) {
    RandomSchedule shape = kWithLink;
    shape.max_ops = 12;
    if (i % 2) shape.control_rate = 0.15, shape.in_place_rate = 0.6;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const CutBoundResult single = closure_cut(problem);
    if (!single.feasible || !single.op) continue;
    const StepGraph graph(problem);
    MultiCutNetwork net(graph, {*single.op});
    LinkShares shares = net.no_shares();
    shares.store[0] = kOne - single.prices.before;
    shares.load[1] = kOne - single.prices.after;
    Multipliers m = net.start(shares);
    m.price[0] = single.prices.per_byte;
    Violations violations;
    const int64_t ticks = net.solve(m, violations), loss = 2 * static_cast<int64_t>(graph.size());
    EXPECT_GE(ticks, single.bound_ticks - loss) << "problem " << i << "\n" << plan::print(problem);
    more += ticks > single.bound_ticks + loss;
    ++checked;
  }
  EXPECT_GT(more, 50);
  EXPECT_GT(checked, 500);
}

class SeveralCuts : public testing::TestWithParam<KnownBound> {};

TEST_P(SeveralCuts, ReachTheKnownBound) {
  const auto path = captured_steps() / "remat" / (std::string(GetParam().name) + ".remat");
  auto problem = plan::parse_remat_file(read_file(path.string()).value(), path.string());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  problem->budget_bytes = GetParam().budget_mib << 20;
  const CutBoundResult single = closure_cut(*problem);
  const MultiCutResult bound = multi_cut(*problem, single);
  EXPECT_GE(100 * bound.bound_seconds / once_seconds(*problem), GetParam().percent);
  EXPECT_LT(bound.work, 600'000'000);
}
INSTANTIATE_TEST_SUITE_P(
    All, SeveralCuts,
    testing::Values(KnownBound{"unet_2", 565, 17.3}, KnownBound{"unet_2", 580, 14.4},
                    KnownBound{"unet_2", 600, 10.8}, KnownBound{"unet_2", 650, 5.94},
                    KnownBound{"resnet50_8", 410, 19.3}, KnownBound{"resnet50_8", 450, 15.89}),
    [](const auto& test) {
      return std::string(test.param.name) + "_" + std::to_string(test.param.budget_mib);
    });

}  // namespace
}  // namespace lowtide::remat
