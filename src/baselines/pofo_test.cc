// The program over a chain against all choices, and what it chooses on links of known speed.
#include "baselines/pofo.h"

#include <gtest/gtest.h>

#include <limits>

#include "baselines/forward.h"
#include "baselines/moves.h"
#include "baselines/testing/layers.h"
#include "plan/schedule_text.h"
#include "plan/sequence_text.h"

namespace lowtide::baselines {
namespace {

using Inner = PofoChoice::Inner;

std::vector<Layer> drawn_layers(Rng& rng, size_t count) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < count; ++i)
    layers.push_back({rng.between(1, 6), rng.between(1, 3), static_cast<double>(rng.between(1, 6)),
                      static_cast<double>(rng.between(2, 9))});
  return layers;
}

TEST(Stages, AreTheLayersOfAChain) {
  Rng rng(1);
  const plan::ScheduleProblem problem = deep_chain_of(drawn_layers(rng, 12));
  const StageChain chain(problem, forward_part(problem, plan::ProblemIndex(problem)));
  // The first layer reads nothing, so that what its two ops pass on is a border each.
  EXPECT_EQ(chain.size(), 13);
  const StageRange range = chain.range(4, 4);
  EXPECT_EQ(range.reruns, (std::vector{SchedOpId(6)}));  // what op 7 makes stays
  EXPECT_EQ(range.inner.size(), 1);
  EXPECT_EQ(range.inputs.size(), 1);
}

// Everything that the program chooses from, by recursion over what is left of the chain.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the chain
void all_choices(const StageChain& chain, bool link, std::vector<PofoChoice>& choices,
                 std::vector<std::vector<PofoChoice>>& found) {
  const size_t first = choices.empty() ? 0 : choices.back().last + 1;
  if (first == chain.size()) {
    found.push_back(choices);
    return;
  }
  for (size_t last = first; last < chain.size(); ++last)
    for (const Inner inner : {Inner::kKeep, Inner::kRecompute, Inner::kOffload})
      for (const bool offload_input : {false, true}) {
        if (inner != Inner::kRecompute && first != last) continue;
        if (!link && (inner == Inner::kOffload || offload_input)) continue;
        choices.push_back({first, last, inner, offload_input});
        all_choices(chain, link, choices, found);
        choices.pop_back();
      }
}

double best_of_all(const plan::ScheduleProblem& problem) {
  const StageChain chain(problem, forward_part(problem, plan::ProblemIndex(problem)));
  std::vector<PofoChoice> none;
  std::vector<std::vector<PofoChoice>> all;
  all_choices(chain, problem.link.has_value(), none, all);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& choices : all) {
    const auto profile = plan::simulate_sequence(
        problem, pofo_sequence(problem, chain, choices, *problem.budget_bytes));
    if (profile && profile->peak_bytes <= *problem.budget_bytes)
      best = std::min(best, profile->seconds);
  }
  return best;
}

void compare_with_all_choices(bool link, uint64_t seed, int rounds) {
  Rng rng(seed);
  int feasible = 0, equal = 0;
  for (int round = 0; round < rounds; ++round) {
    plan::ScheduleProblem problem =
        deep_chain_of(drawn_layers(rng, static_cast<size_t>(rng.between(2, 4))));
    if (link)
      problem.link = plan::Link{static_cast<double>(int64_t{1} << rng.between(0, 2)),
                                static_cast<double>(int64_t{1} << rng.between(0, 2))};
    const int64_t peak = peak_of_given_order(problem);
    problem.budget_bytes = rng.between(peak / 2, peak - 1);
    const double best = best_of_all(problem);
    const BaselineOutcome outcome = solve(problem, Method::kPofo);
    if (best == std::numeric_limits<double>::infinity()) {
      ASSERT_FALSE(outcome.found()) << plan::print(problem);
      continue;
    }
    ++feasible;
    if (outcome.found()) {
      ASSERT_GE(outcome.seconds, best - 1e-9) << plan::print(problem);
      equal += outcome.seconds <= best + 1e-9;
    }
  }
  EXPECT_GT(feasible, rounds / 3);
  EXPECT_EQ(equal, feasible);
}

TEST(Pofo, IsTheBestOfAllChoicesToRecompute) {
  compare_with_all_choices(false, 7, 300);
}

TEST(Pofo, IsTheBestOfAllChoicesWithALink) {
  compare_with_all_choices(true, 8, 60);
}

TEST(Pofo, MovesOverAFastLinkAndRunsAgainBesideASlowOne) {
  plan::ScheduleProblem problem = deep_chain_of(std::vector<Layer>(12, {4, 1, 2, 4}));
  problem.budget_bytes = peak_of_given_order(problem) * 6 / 10;
  problem.link = plan::Link{.bytes_per_second_out = 64, .bytes_per_second_in = 64};
  const BaselineOutcome fast = solve(problem, Method::kPofo);
  ASSERT_TRUE(fast.found());
  const auto moving = plan::simulate_sequence(problem, fast.sequence);
  EXPECT_EQ(moving->reruns, 0);
  EXPECT_GT(moving->transfer_seconds, 0);
  EXPECT_EQ(fast.status, plan::SolveStatus::kOptimal);
  problem.link = plan::Link{.bytes_per_second_out = 0.01, .bytes_per_second_in = 0.01};
  const BaselineOutcome slow = solve(problem, Method::kPofo);
  ASSERT_TRUE(slow.found());
  const auto rerunning = plan::simulate_sequence(problem, slow.sequence);
  EXPECT_GT(rerunning->reruns, 0);
  EXPECT_EQ(rerunning->transfer_seconds, 0);
}

TEST(Pofo, FindsNothingWhereThereIsNoChain) {
  plan::ScheduleProblem problem;
  for (int i = 0; i < 6; ++i) {
    plan::SchedOp op;
    op.seconds = 1;
    op.may_rerun = true;
    problem.ops.push_back(op);
  }
  for (size_t i = 0; i < 5; ++i) problem.values.push_back(plan::value(4, i, {5}));
  problem.budget_bytes = 19;
  EXPECT_FALSE(solve(problem, Method::kPofo).found());
}

// Ten seconds of runs between the uses of value 0, which takes two each way.
plan::ScheduleProblem pause() {
  plan::ScheduleProblem problem;
  for (const double seconds : {1, 2, 2, 2, 2, 2, 1}) {
    plan::SchedOp op;
    op.seconds = seconds;
    op.may_rerun = true;
    problem.ops.push_back(op);
  }
  problem.values.push_back(plan::value(8, 0, {6}));
  for (size_t i = 1; i < 6; ++i) problem.values.push_back(plan::value(i == 3 ? 8 : 1, i, {i + 1}));
  problem.link = plan::Link{.bytes_per_second_out = 4, .bytes_per_second_in = 4};
  return problem;
}

std::string with_value_0_away(const plan::ScheduleProblem& problem, int64_t memory) {
  std::vector<SchedAction> runs;
  for (const SchedOpId op : problem.ops.ids()) runs.push_back(SchedAction::run(op));
  return plan::print(with_moves(problem, runs, std::vector{SchedValueId(0)}, memory));
}

TEST(Moves, LeaveAsSoonAsStoredAndComeBackJustInTime) {
  plan::ScheduleProblem problem = pause();
  EXPECT_EQ(with_value_0_away(problem, 100), "0 store:0 1 drop:0 2 3 4 load:0 5 6");
  problem.link->bytes_per_second_in = 2;
  EXPECT_EQ(with_value_0_away(problem, 100), "0 store:0 1 drop:0 2 3 load:0 4 5 6");
}

TEST(Moves, WaitOnlyWhereMemoryIsFull) {
  plan::ScheduleProblem problem = pause();
  problem.link = plan::Link{.bytes_per_second_out = 1, .bytes_per_second_in = 1};
  // Eight seconds each way: away at least while op 3 runs, when 9 bytes more are there.
  EXPECT_EQ(with_value_0_away(problem, 100), "0 store:0 1 2 3 4 drop:0 load:0 5 6");
  EXPECT_EQ(with_value_0_away(problem, 16), "0 store:0 1 2 drop:0 3 4 load:0 5 6");
}

}  // namespace
}  // namespace lowtide::baselines
