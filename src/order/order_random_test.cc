// The solver against the subset DP: tens of thousands of random small problems with in-place pairs,
// workspace, control edges, outputs, dead values and empty values; and all graphs of up to five
// ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "order/beam.h"
#include "order/cut_bound.h"
#include "order/exact_search.h"
#include "order/heuristics.h"
#include "order/order.h"
#include "order/prefix.h"
#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"
#include "support/long_checks.h"

namespace lowtide::order {
namespace {

using plan::ScheduleOutcome;
using plan::ScheduleProblem;

uint32_t mask_of(const std::vector<OpId>& ops) {
  uint32_t mask = 0;
  for (OpId op : ops) mask |= 1u << op.index();
  return mask;
}

void expect_certificate(const ScheduleProblem& problem, const SubsetDp& dp,
                        const ScheduleOutcome& outcome) {
  ASSERT_TRUE(outcome.certificate.peak.has_value());
  const auto& cut = *outcome.certificate.peak;
  const uint32_t prefix = mask_of(cut.prefix);
  EXPECT_TRUE(std::is_sorted(cut.prefix.begin(), cut.prefix.end()));
  EXPECT_TRUE(dp.can_run(prefix, cut.op.index()));
  EXPECT_EQ(cut.value_bytes, dp.cut(cut.op.index()));
  EXPECT_LE(cut.value_bytes, outcome.lower_bound_bytes);
  EXPECT_LE(std::max(cut.value_bytes, problem.resident_bytes), dp.optimum());
  int64_t least = SubsetDp::kNever;  // the prefix attains the minimum
  for (uint32_t set : dp.closed_sets())
    if (dp.can_run(set, cut.op.index())) least = std::min(least, dp.live(set));
  EXPECT_EQ(dp.live(prefix), least);
}

void expect_optimal(const ScheduleProblem& problem, const ScheduleOutcome& outcome,
                    int64_t optimum) {
  EXPECT_EQ(outcome.status, plan::SolveStatus::kOptimal);
  EXPECT_EQ(outcome.peak_bytes, optimum);
  EXPECT_EQ(outcome.lower_bound_bytes, optimum);
  const auto profile = plan::simulate(problem, outcome.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->peak_bytes, optimum);
}

// Heuristics give valid orders that the oracle does not beat the wrong way; each cut is the
// minimum; searches are right at and below the optimum.
void expect_parts_agree(const ScheduleProblem& problem, const SubsetDp& dp, int64_t optimum,
                        uint64_t seed) {
  const OrderGraph graph = make_order_graph(problem);
  const int64_t resident = problem.resident_bytes;
  WorkBudget work({.max_units = int64_t{1} << 40});
  const auto expect_order = [&](const std::vector<OpId>& order) {
    const auto profile = plan::simulate(problem, order);
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    EXPECT_EQ(profile->peak_bytes, std::max(resident, resident + peak_of(graph, order)));
    const int64_t peak = peak_of(graph, order);
    EXPECT_EQ(peak_of(graph, order, peak + 1), peak);
    for (const int64_t enough : {peak / 3, peak / 2, peak}) {
      EXPECT_GE(peak_of(graph, order, enough), enough);
      EXPECT_LE(peak_of(graph, order, enough), peak);
    }
    EXPECT_GE(profile->peak_bytes, optimum);
  };
  expect_order(given_order(graph));
  expect_order(least_peak_first(graph, work));
  expect_order(most_freed_first(graph, work));
  for (BranchRule rule : {BranchRule::kGiven, BranchRule::kFanOut, BranchRule::kBytes})
    expect_order(post_order(graph, rule));
  std::vector<TieBreak> ties(std::begin(kFixedTieBreaks), std::end(kFixedTieBreaks));
  ties.push_back(TieBreak::kRandom);
  for (bool look_ahead : {false, true})
    for (TieBreak tie : ties)
      expect_order(closure_greedy(graph, {tie, 0, look_ahead}, {}, Rng(seed), work));
  for (size_t v = 0; v < graph.size(); ++v)
    EXPECT_EQ(resident + cut_of(graph, OpId(v), work).bytes, dp.cut(v)) << "op " << v;
  if (optimum == resident) return;
  const BudgetAnswer at = search_within(graph, optimum - resident, {}, 1 << 20, work);
  ASSERT_EQ(at.verdict, Verdict::kFound);
  EXPECT_LE(peak_of(graph, at.sequence), optimum - resident);
  const BudgetAnswer below = search_within(graph, optimum - resident - 1, {}, 1 << 20, work);
  ASSERT_EQ(below.verdict, Verdict::kImpossible);
  EXPECT_GT(below.next_budget_bytes, optimum - resident - 1);
  EXPECT_LE(below.next_budget_bytes, optimum - resident);
  const auto beam = beam_search(graph, optimum - resident, 4, {}, work);
  if (!beam.empty()) {
    expect_order(beam);
    EXPECT_EQ(peak_of(graph, beam), optimum - resident);
  }
  EXPECT_TRUE(beam_search(graph, optimum - resident - 1, 4, {}, work).empty());
}

class RandomProblems : public testing::TestWithParam<int> {};

TEST_P(RandomProblems, SolveMeetsTheSubsetDp) {
  const RandomShape shapes[] = {
      {},                                                 // a bit of everything
      {.reader_rate = 0.12, .output_rate = 0.02},         // wide
      {.max_bytes = 3, .window = 4, .reader_rate = 0.4},  // long, many ties
      {.max_bytes = 100,
       .reader_rate = 0.2,
       .output_rate = 0,
       .workspace_rate = 0,
       .in_place_rate = 0.9,
       .control_rate = 0},  // element-wise chains
      {.extra_value_rate = 0.9, .in_place_rate = 0.8, .control_rate = 0.1},
      {.reader_rate = 0.2,
       .extra_value_rate = 0.4,
       .workspace_rate = 0.5,
       .in_place_rate = 0.9,
       .control_rate = 0.05,
       .source_rate = 0.5},  // many sources, some with too much workspace to be late
      {.max_bytes = 40, .output_rate = 0.03, .in_place_rate = 0.7, .source_rate = 0.3},
  };
  Rng rng(1000 + static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < some_of(8000, 4); ++i) {
    const ScheduleProblem problem = random_problem(shapes[GetParam()], rng);
    ASSERT_TRUE(plan::check(problem).has_value());
    const SubsetDp dp(problem);
    const int64_t optimum = dp.optimum();
    const ScheduleOutcome outcome = solve(problem);
    expect_optimal(problem, outcome, optimum);
    expect_certificate(problem, dp, outcome);
    EXPECT_LE(dp.best_cut(), optimum);
    if (i % 2 == 0) expect_parts_agree(problem, dp, optimum, static_cast<uint64_t>(i));
    if (HasFailure())
      FAIL() << "shape " << GetParam() << ", problem " << i << "\n" << plan::print(problem);
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, RandomProblems, testing::Range(0, 7));

// Larger and wider ones, where heuristics often miss and the search has to work.
TEST(LargerRandomProblems, OfFifteenToSeventeenOps) {
  Rng rng(2000);
  int searched = 0;
  for (int i = 0; i < 250; ++i) {
    const ScheduleProblem problem = random_problem({.min_ops = 15,
                                                    .max_ops = 17,
                                                    .max_bytes = 30,
                                                    .window = 8,
                                                    .reader_rate = 0.25,
                                                    .output_rate = 0.03,
                                                    .in_place_rate = 0.2},
                                                   rng);
    const int64_t optimum = SubsetDp(problem).optimum();
    expect_optimal(problem, solve(problem), optimum);
    // The search alone, without a good order or bound to start from.
    OrderOptions bare;
    bare.list_rules = bare.post_orders = bare.closure_greedy = bare.cut_bound = bare.beam = false;
    const auto outcome = solve(problem, bare);
    expect_optimal(problem, outcome, optimum);
    searched += outcome.work.units > 1'600;
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(searched, 100);
}

// The graph with edge bits `edges`; op i makes one value of sizes[i] bytes.
ScheduleProblem numbered_graph(size_t ops, uint32_t edges, uint32_t sizes, uint32_t outputs,
                               bool in_place, uint32_t workspaces = 0) {
  ProblemMaker make;
  for (size_t i = 0; i < ops; ++i, sizes /= 3, workspaces /= 3) {
    make.op(workspaces % 3);
    make.value(OpId(i), 1 + sizes % 3, outputs >> i & 1);
  }
  for (size_t b = 1; b < ops; ++b)
    for (size_t a = 0; a < b; ++a, edges >>= 1) {
      if (!(edges & 1)) continue;
      make.read(OpId(b), plan::SchedValueId(a));
      if (in_place)
        make.problem.in_place.push_back({OpId(b), plan::SchedValueId(a), plan::SchedValueId(b)});
    }
  return std::move(make.problem);
}

TEST(AllGraphs, UpToFourOpsWithEverySizeOneToThree) {
  for (size_t ops = 0; ops <= 4; ++ops) {
    const uint32_t pairs = static_cast<uint32_t>(ops * (ops - (ops > 0)) / 2);
    uint32_t all_sizes = 1;
    for (size_t i = 0; i < ops; ++i) all_sizes *= 3;
    for (uint32_t edges = 0; edges < 1u << pairs; ++edges)
      for (uint32_t sizes = 0; sizes < all_sizes; ++sizes)
        for (uint32_t variant = 0; variant < 8; ++variant) {
          // Outputs and workspaces: none, or some that differ from graph to graph.
          const uint32_t outputs = variant & 1 ? (edges * 7 + sizes * 5) & ((1u << ops) - 1) : 0;
          const uint32_t workspaces = variant & 4 ? edges * 11 + sizes * 13 : 0;
          const auto problem = numbered_graph(ops, edges, sizes, outputs, variant & 2, workspaces);
          expect_optimal(problem, solve(problem), SubsetDp(problem).optimum());
          if (HasFailure()) FAIL() << plan::print(problem);
        }
  }
}

// All 1,024 graphs with all 243 sizes: as they are, and with outputs, workspaces and in-place pairs
// that differ from case to case.
TEST(AllGraphs, OfFiveOpsWithEverySizeOneToThree) {
  Rng rng(5);
  for (uint32_t edges = 0; edges < 1u << 10; ++edges)
    for (uint32_t sizes = 0; sizes < 243; ++sizes)
      for (const bool plain : {true, false}) {
        const auto outputs = plain || sizes % 3 != 0 ? 0 : static_cast<uint32_t>(rng.below(32));
        const auto workspaces = plain || sizes % 4 < 2 ? 0 : static_cast<uint32_t>(rng.below(243));
        const bool in_place = !plain && (edges + sizes) % 2 == 0;
        const auto problem = numbered_graph(5, edges, sizes, outputs, in_place, workspaces);
        expect_optimal(problem, solve(problem), SubsetDp(problem).optimum());
        if (HasFailure()) FAIL() << plan::print(problem);
      }
}

}  // namespace
}  // namespace lowtide::order
