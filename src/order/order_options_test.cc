// What must hold whatever the options are, and how answers change when the question changes in a
// known way.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "order/decompose.h"
#include "order/order.h"
#include "order/testing/ideas.h"
#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

using plan::ScheduleOutcome;
using plan::ScheduleProblem;
using plan::SchedValueId;
using plan::SolveStatus;

std::vector<OpId> incoming(const ScheduleProblem& problem) {
  std::vector<OpId> order;
  for (OpId op : problem.ops.ids()) order.push_back(op);
  return order;
}

void expect_sound(const ScheduleProblem& problem, const ScheduleOutcome& outcome) {
  const auto profile = plan::simulate(problem, outcome.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->peak_bytes, outcome.peak_bytes);
  EXPECT_LE(outcome.peak_bytes, plan::simulate(problem, incoming(problem))->peak_bytes);
  EXPECT_LE(outcome.lower_bound_bytes, outcome.peak_bytes);
  EXPECT_EQ(outcome.status == SolveStatus::kOptimal,
            outcome.peak_bytes == outcome.lower_bound_bytes);
  if (outcome.certificate.peak) {
    EXPECT_LE(outcome.certificate.peak->value_bytes, outcome.lower_bound_bytes);
  }
}

// All options, one switched off at a time, some together, and almost no work.
std::vector<OrderOptions> switches() {
  std::vector<OrderOptions> all(1);
  for (const Idea<OrderOptions>& idea : all_ideas()) idea.turn(all.emplace_back());
  OrderOptions& no_moves = all.emplace_back();
  no_moves.safe_moves = no_moves.excursions = false;
  OrderOptions& heuristics = all.emplace_back();
  heuristics.exact_search = heuristics.beam = false;
  OrderOptions& exact = all.emplace_back();
  exact.list_rules = exact.post_orders = exact.closure_greedy = exact.beam = false;
  all.emplace_back().limits.max_units = 80;
  return all;
}

TEST(Options, EverySwitchKeepsTheAnswerSound) {
  Rng rng(21);
  for (int i = 0; i < 1500; ++i) {
    const auto problem = random_problem({.reader_rate = 0.18,
                                         .output_rate = i % 2 == 0 ? 0.02 : 0.2,
                                         .source_rate = i % 3 == 0 ? 0.3 : 0},
                                        rng);
    const int64_t optimum = SubsetDp(problem).optimum();
    for (const OrderOptions& options : switches()) {
      const auto outcome = solve(problem, options);
      expect_sound(problem, outcome);
      EXPECT_GE(outcome.peak_bytes, optimum);
      EXPECT_LE(outcome.lower_bound_bytes, optimum);
      if (options.exact_search && options.limits.max_units > 80) {
        EXPECT_EQ(outcome.peak_bytes, optimum);
        EXPECT_EQ(outcome.lower_bound_bytes, optimum);
      }
    }
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
}

TEST(Options, EverySwitchIsSoundOnLargeGraphs) {
  Rng rng(22);
  const ScheduleProblem problems[] = {random_dag(200, 40, 2, rng), mlp_training(40, 10, 50),
                                      transformer_training(3, 16, 100)};
  for (const auto& problem : problems)
    for (OrderOptions options : switches()) {
      options.limits.max_units = std::min<int64_t>(options.limits.max_units, 3'200'000);
      expect_sound(problem, solve(problem, options));
    }
}

TEST(Options, SameAnswerAgainAndAtAnyThreadCount) {
  Rng rng(23);
  ScheduleProblem problem = random_dag(150, 50, 2, rng);
  // A second, independent part, so that threads have something to share.
  const ScheduleProblem other = random_dag(150, 50, 2, rng);
  for (const auto& op : other.ops) problem.ops.push_back(op);
  for (auto value : other.values) {
    value.producer = OpId(value.producer.index() + 150);
    for (OpId& reader : value.readers) reader = OpId(reader.index() + 150);
    problem.values.push_back(value);
  }
  ASSERT_TRUE(plan::check(problem).has_value());
  EXPECT_GE(decompose(problem).size(), 2u);
  OrderOptions options;
  options.limits.max_units = 4'800'000;
  const auto once = solve(problem, options);
  for (const int threads : {1, 2, 8}) {
    options.threads = threads;
    const auto again = solve(problem, options);
    EXPECT_EQ(again.sequence, once.sequence);
    EXPECT_EQ(again.lower_bound_bytes, once.lower_bound_bytes);
    EXPECT_EQ(again.work.units, once.work.units);
    EXPECT_EQ(again.certificate.peak, once.certificate.peak);
  }
}

// Another valid numbering of the same ops.
ScheduleProblem relabel(const ScheduleProblem& problem, Rng& rng) {
  const SubsetDp dp(problem);
  IdVector<OpId, OpId> to(problem.ops.size());
  ScheduleProblem result = problem;
  uint32_t set = 0;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    size_t op = rng.below(problem.ops.size());
    while (!dp.can_run(set, op)) op = (op + 1) % problem.ops.size();
    set |= 1u << op;
    to[OpId(op)] = OpId(i);
    result.ops[OpId(i)] = problem.ops[OpId(op)];
  }
  for (SchedValueId v : result.values.ids()) {
    auto& value = result.values[v];
    value.producer = to[value.producer];
    for (OpId& reader : value.readers) reader = to[reader];
    std::sort(value.readers.begin(), value.readers.end());
  }
  for (auto& pair : result.in_place) pair.op = to[pair.op];
  std::stable_sort(result.in_place.begin(), result.in_place.end(),
                   [](const auto& a, const auto& b) { return a.op < b.op; });
  for (auto& [first, second] : result.control) {
    first = to[first];
    second = to[second];
  }
  return result;
}

ScheduleProblem scaled(ScheduleProblem problem, int64_t factor) {
  problem.resident_bytes *= factor;
  for (auto& op : problem.ops) op.workspace_bytes *= factor;
  for (auto& value : problem.values) value.bytes *= factor;
  return problem;
}

TEST(Metamorphic, RelabelScaleAndDeadOps) {
  Rng rng(24);
  for (int i = 0; i < 2000; ++i) {
    const auto problem = random_problem({.reader_rate = 0.2}, rng);
    const auto outcome = solve(problem);
    ASSERT_EQ(outcome.status, SolveStatus::kOptimal);

    const auto other = relabel(problem, rng);
    ASSERT_TRUE(plan::check(other).has_value());
    EXPECT_EQ(solve(other).peak_bytes, outcome.peak_bytes);

    const auto large = solve(scaled(problem, 1 << 20));
    EXPECT_EQ(large.peak_bytes, outcome.peak_bytes << 20);
    EXPECT_EQ(large.sequence, outcome.sequence);

    // An op without values changes nothing; one with a small dead value may not raise the peak.
    auto longer = problem;
    longer.ops.push_back({});
    EXPECT_EQ(solve(longer).peak_bytes, outcome.peak_bytes);

    auto heavier = problem;
    heavier.resident_bytes += 1000;
    EXPECT_EQ(solve(heavier).peak_bytes, outcome.peak_bytes + 1000);

    auto without = problem;
    without.in_place.clear();
    EXPECT_GE(solve(without).peak_bytes, outcome.peak_bytes);
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
}

TEST(Order, EmptyAndTinyProblems) {
  ScheduleProblem none;
  none.resident_bytes = 12;
  const auto outcome = solve(none);
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(outcome.peak_bytes, 12);
  EXPECT_TRUE(outcome.sequence.empty());

  ProblemMaker one;
  one.value(one.op(3), 4, true);
  EXPECT_EQ(solve(one.problem).peak_bytes, 7);
}

TEST(Order, ARaisedFlagLeavesWhatIsKnown) {
  Rng rng(26);
  const auto problem = random_dag(400, 100, 2, rng);
  std::atomic<bool> cancel{true};
  OrderOptions options;
  options.limits.cancel = &cancel;
  const auto stopped = solve(problem, options);
  EXPECT_EQ(stopped.status, SolveStatus::kLimit);
  EXPECT_TRUE(stopped.work.timed_out);
  EXPECT_LT(stopped.work.units, 800'000);
  expect_sound(problem, stopped);
  options.limits.max_units = 800'000;
  cancel = false;
  EXPECT_FALSE(solve(problem, options).work.timed_out);
}

TEST(Order, AWorkLimitIsReportedAsSuch) {
  Rng rng(26);
  OrderOptions options;
  options.limits.max_units = 800'000;
  const auto problem = random_dag(400, 100, 2, rng);
  const auto outcome = solve(problem, options);
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_LT(outcome.lower_bound_bytes, outcome.peak_bytes);
  EXPECT_FALSE(outcome.work.timed_out);
  expect_sound(problem, outcome);
  options.exact_search = options.beam = false;
  options.limits.max_units = 320'000'000;
  EXPECT_EQ(solve(problem, options).status, SolveStatus::kFeasible);
}

}  // namespace
}  // namespace lowtide::order
