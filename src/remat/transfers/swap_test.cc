// Transfers on random problems: whatever add_transfers returns is checked by the simulator (inside,
// too); here it is held to what it promises beyond that.
#include "remat/transfers/swap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::SchedOpId;
using plan::ScheduleProblem;

std::vector<SchedAction> in_given_order(const ScheduleProblem& problem) {
  std::vector<SchedAction> runs;
  for (SchedOpId op : problem.ops.ids()) runs.push_back(SchedAction::run(op));
  return runs;
}

SwapOptions limited(int64_t units) {
  SwapOptions options;
  options.limits.max_units = units;
  return options;
}

plan::SchedOp second(std::string name) {
  return {.name = std::move(name), .seconds = 1, .may_rerun = false, .workspace_bytes = 0};
}

plan::SchedValue between(size_t producer, size_t reader, int64_t bytes) {
  plan::SchedValue value;
  value.bytes = bytes;
  value.producer = SchedOpId(producer);
  value.readers = {SchedOpId(reader)};
  return value;
}

ScheduleProblem random_swap_problem(Rng& rng, int64_t ops) {
  plan::RandomSchedule shape;
  shape.min_ops = shape.max_ops = ops;
  shape.reader_rate = 1.5 / static_cast<double>(ops);
  shape.link_rate = 1;
  shape.moved_parts_rate = 0.2;
  shape.resident_rate = 0.3;
  return plan::random_schedule_problem(shape, rng);
}

TEST(Swap, FitsBudgetsThatTheOrderAloneMisses) {
  Rng rng(1);
  int tried = 0, fitted = 0;
  for (int i = 0; i < 2000; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, rng.between(4, 30));
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    ASSERT_TRUE(whole) << whole.error().message;
    problem.budget_bytes = whole->peak_bytes - rng.between(0, whole->peak_bytes / 2);
    const SwapOutcome outcome = add_transfers(problem, runs, limited(200'000));
    ++tried;
    if (outcome.sequence.empty()) continue;
    ++fitted;
    const auto profile = plan::simulate_sequence(problem, outcome.sequence);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
    EXPECT_DOUBLE_EQ(profile->seconds, outcome.seconds);
    EXPECT_GE(outcome.seconds, whole->seconds * (1 - 1e-12));
    EXPECT_EQ(profile->reruns, 0);
  }
  EXPECT_GT(fitted, tried / 3);
}

TEST(Swap, MovesNothingWhereNothingOverflows) {
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, 12);
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    ASSERT_TRUE(whole) << whole.error().message;
    problem.budget_bytes = whole->peak_bytes;
    EXPECT_EQ(add_transfers(problem, runs).sequence, runs);
  }
}

// ops 0 1 2 3 4 5 in a row, each one second; 0 makes a value of 10 bytes that 5 reads.
ScheduleProblem long_idle_span(double bytes_per_second) {
  ScheduleProblem problem;
  for (int i = 0; i < 6; ++i) problem.ops.push_back(second("op" + std::to_string(i)));
  problem.values.push_back(between(0, 5, 10));
  for (size_t i = 0; i + 1 < 6; ++i) problem.values.push_back(between(i, i + 1, 4));
  problem.values.push_back(between(2, 3, 10));
  problem.link = plan::Link{bytes_per_second, bytes_per_second, 0};
  problem.budget_bytes = 18;
  return problem;
}

TEST(Swap, ATransferThatFitsBetweenItsUsesCostsNothing) {
  const ScheduleProblem problem = long_idle_span(10);  // a second each way; away during ops 2 and 3
  const SwapOutcome outcome = add_transfers(problem, in_given_order(problem));
  ASSERT_FALSE(outcome.sequence.empty());
  EXPECT_DOUBLE_EQ(outcome.seconds, 6);
  EXPECT_LE(outcome.peak_bytes, 18);
}

TEST(Swap, WaitsExactlyAsLongAsTheLinkIsTooSlow) {
  // Two seconds each way: out from 1 to 3, so op 2 waits a second; back right after op 3, from 5 to
  // 7, when op 4 is done at 6: another second.
  const ScheduleProblem problem = long_idle_span(5);
  const SwapOutcome outcome = add_transfers(problem, in_given_order(problem));
  ASSERT_FALSE(outcome.sequence.empty());
  EXPECT_DOUBLE_EQ(outcome.seconds, 8);
}

TEST(Swap, ResidentsComeForTheirUsesAndLeave) {
  ScheduleProblem problem;
  for (int i = 0; i < 8; ++i) problem.ops.push_back(second(""));
  for (size_t i = 0; i + 1 < 8; ++i) problem.values.push_back(between(i, i + 1, 1));
  for (size_t i = 0; i < 4; ++i)
    problem.residents.push_back({.name = "state",
                                 .bytes = 10,
                                 .readers = {SchedOpId(2 * i)},
                                 .writers = {SchedOpId(2 * i)}});
  problem.resident_bytes = 40;
  problem.link = plan::Link{10, 10, 0};
  problem.budget_bytes = 33;
  const auto runs = in_given_order(problem);
  const SwapOutcome outcome = add_transfers(problem, runs);
  ASSERT_FALSE(outcome.sequence.empty());
  EXPECT_DOUBLE_EQ(outcome.seconds, 8);  // one or two of them move, in the shadow of the ops
  const auto profile = plan::simulate_sequence(problem, outcome.sequence);
  ASSERT_TRUE(profile);
  EXPECT_LE(profile->peak_bytes, 33);
  EXPECT_EQ(profile->stored_bytes, profile->loaded_bytes);

  SwapOptions values_only;
  values_only.spans.residents = false;
  EXPECT_TRUE(add_transfers(problem, runs, values_only).sequence.empty());
}

// Three values of 10, 10 and 4 bytes are away at the same time; the last one for longest.
ScheduleProblem three_away() {
  ScheduleProblem problem;
  for (int i = 0; i < 12; ++i) problem.ops.push_back(second("op" + std::to_string(i)));
  problem.values.push_back(between(2, 9, 10));
  problem.values.push_back(between(1, 10, 10));
  problem.values.push_back(between(0, 11, 4));
  for (size_t i = 0; i + 1 < 12; ++i) problem.values.push_back(between(i, i + 1, 1));
  problem.values.push_back(between(5, 6, 24));
  problem.link = plan::Link{20, 20, 0};
  problem.more_links = {plan::Link{10, 10, 0}};
  problem.budget_bytes = 26;
  return problem;
}

TEST(Swap, WhatTheFirstTierHasNoRoomForGoesToTheNext) {
  ScheduleProblem problem = three_away();
  const auto runs = in_given_order(problem);
  const auto most = [&](const SwapOutcome& outcome, uint8_t tier) {
    const auto profile = plan::simulate_sequence(problem, outcome.sequence);
    EXPECT_TRUE(profile.has_value());
    return plan::most_held(problem, profile->slots, tier).bytes;
  };
  const SwapOutcome roomy = add_transfers(problem, runs);
  ASSERT_FALSE(roomy.sequence.empty());
  EXPECT_EQ(most(roomy, 0), 24);
  EXPECT_EQ(most(roomy, 1), 0);
  problem.link->bytes = 14;
  const SwapOutcome split = add_transfers(problem, runs);
  ASSERT_FALSE(split.sequence.empty());
  EXPECT_EQ(most(split, 0), 14);
  EXPECT_EQ(most(split, 1), 10);
  EXPECT_DOUBLE_EQ(split.seconds, 12);
  problem.more_links[0].bytes = 9;
  const SwapOutcome none = add_transfers(problem, runs);
  EXPECT_TRUE(none.sequence.empty());
  ASSERT_TRUE(none.crowded.has_value());
  EXPECT_EQ(none.crowded->tier, 1);
  EXPECT_GT(none.crowded->needed_bytes, 9);
}

// Where compute waits for one link, a second one like it takes a part of what moves. The search
// starts from what one link does; only what it then tidies may come out otherwise.
TEST(Swap, TwoLinksCarryMoreThanOne) {
  Rng rng(6);
  int bound = 0, faster = 0, slower = 0;
  for (int i = 0; i < 200; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, 30);
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    ASSERT_TRUE(whole) << whole.error().message;
    problem.budget_bytes = whole->peak_bytes * 3 / 4;
    const SwapOutcome one = add_transfers(problem, runs, limited(8'000'000));
    if (one.sequence.empty() || one.seconds < whole->seconds * 1.05) continue;
    ++bound;
    problem.more_links = {*problem.link};
    const SwapOutcome two = add_transfers(problem, runs, limited(8'000'000));
    ASSERT_FALSE(two.sequence.empty());
    faster += two.seconds < one.seconds * (1 - 1e-9);
    slower += two.seconds > one.seconds * (1 + 1e-9);
  }
  EXPECT_GT(bound, 30);
  EXPECT_GT(faster, bound / 2);
  EXPECT_LE(slower, bound / 20);
}

TEST(Swap, NoTierHoldsMoreThanItHasRoomFor) {
  Rng rng(5);
  int both = 0, fitted = 0, crowded = 0;
  for (int i = 0; i < 300; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, 30);
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    ASSERT_TRUE(whole) << whole.error().message;
    problem.budget_bytes = whole->peak_bytes * 3 / 4;
    problem.more_links = {plan::Link{2, 2, 0.5, 0.01}};
    problem.link->bytes = std::max<int64_t>(1, rng.between(0, whole->peak_bytes / 6));
    if (i % 2 == 0) problem.more_links[0].bytes = whole->peak_bytes / 6 + 1;
    ASSERT_TRUE(plan::check(problem).has_value());
    const SwapOutcome outcome = add_transfers(problem, runs, limited(200'000));
    crowded += outcome.crowded.has_value();
    if (outcome.sequence.empty()) continue;
    ++fitted;
    const auto profile = plan::simulate_sequence(problem, outcome.sequence);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_DOUBLE_EQ(profile->seconds, outcome.seconds);
    EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
    bool each = true;
    for (uint8_t tier = 0; tier < 2; ++tier) {
      const int64_t held = plan::most_held(problem, profile->slots, tier).bytes;
      EXPECT_LE(held, plan::links_of(problem)[tier].bytes);
      each &= held > 0;
    }
    both += each;
  }
  EXPECT_GT(fitted, 50);
  EXPECT_GT(both, 20);
  EXPECT_GT(crowded, 0);
}

// Without the stay away of a value that the load ends: its store, drop and load go. Empty where
// other loads need the store, too.
std::vector<SchedAction> without_stay(const std::vector<SchedAction>& sequence, size_t load) {
  using Kind = SchedAction::Kind;
  const plan::SchedValueId value = sequence[load].value;
  const auto is = [&](size_t i, Kind kind) {
    return sequence[i].kind == kind && sequence[i].value == value;
  };
  size_t drop = load, store = sequence.size();
  while (!is(drop, Kind::kDrop)) --drop;
  for (size_t i = 0; i < drop; ++i)
    if (is(i, Kind::kStore)) store = i;
  std::vector<SchedAction> shorter;
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (i > store && i != load && is(i, Kind::kLoad)) return {};
    if (i != load && i != drop && i != store) shorter.push_back(sequence[i]);
  }
  return shorter;
}

TEST(Swap, NothingMovesWithoutNeed) {
  Rng rng(21);
  int stays = 0;
  for (int i = 0; i < 600; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, rng.between(6, 40));
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    problem.budget_bytes = whole->peak_bytes - rng.between(1, whole->peak_bytes / 2);
    const SwapOutcome outcome = add_transfers(problem, runs, limited(100'000));
    for (size_t k = 0; k < outcome.sequence.size(); ++k) {
      const SchedAction& action = outcome.sequence[k];
      if (action.kind != SchedAction::Kind::kLoad || !action.value.valid()) continue;
      const auto shorter = without_stay(outcome.sequence, k);
      if (shorter.empty()) continue;
      const auto profile = plan::simulate_sequence(problem, shorter);
      ASSERT_TRUE(profile) << profile.error().message;
      ++stays;
      EXPECT_TRUE(profile->peak_bytes > *problem.budget_bytes ||
                  profile->seconds > outcome.seconds * (1 + 1e-12))
          << "problem " << i << ", action " << k;
    }
  }
  EXPECT_GT(stays, 500);
}

// De-swap: what moves without need is taken back, and the step is no longer for it.
TEST(Swap, TidyingTakesBackWhatNeedNotMove) {
  Rng rng(22);
  int fewer = 0;
  const auto transfers_in = [](const std::vector<SchedAction>& sequence) {
    return std::count_if(sequence.begin(), sequence.end(), [](const SchedAction& action) {
      return action.kind == SchedAction::Kind::kStore || action.kind == SchedAction::Kind::kLoad;
    });
  };
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    ScheduleProblem problem = random_swap_problem(rng, rng.between(6, 40));
    const auto runs = in_given_order(problem);
    const int64_t peak = plan::simulate_sequence(problem, runs)->peak_bytes;
    problem.budget_bytes = peak - rng.between(1, peak / 2);
    SwapOptions options = limited(100'000);
    options.local_search = false;
    options.tidy_units = 0;
    const SwapOutcome found = add_transfers(problem, runs, options);
    if (found.sequence.empty()) continue;
    options.tidy_units = SwapOptions().tidy_units;
    const SwapOutcome tidied = tidy_transfers(problem, runs, found, options);
    const auto profile = plan::simulate_sequence(problem, tidied.sequence);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_TRUE(tidied.tidy);
    EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
    EXPECT_LE(tidied.seconds, found.seconds * (1 + 1e-12));
    EXPECT_LE(transfers_in(tidied.sequence), transfers_in(found.sequence));
    fewer += transfers_in(tidied.sequence) < transfers_in(found.sequence);
  }
  EXPECT_GT(fewer, 10);
}

TEST(Swap, KnownMovesAreReadAndNeverMadeWorse) {
  Rng rng(9);
  int read = 0, better = 0;
  for (int i = 0; i < 400; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, rng.between(6, 24));
    const auto runs = in_given_order(problem);
    problem.budget_bytes = plan::simulate_sequence(problem, runs)->peak_bytes * 3 / 4;
    SwapOptions longer = limited(200'000);
    longer.spans.residents = i % 4 == 0;
    const SwapOutcome known = add_transfers(problem, runs, longer);
    if (known.sequence.empty()) continue;
    const auto view = find_idle_spans(problem, runs, longer.spans);
    const auto moves = read_moves(*view, known.sequence);
    const bool moves_residents =
        std::any_of(known.sequence.begin(), known.sequence.end(),
                    [](const SchedAction& action) { return action.resident.valid(); });
    EXPECT_EQ(moves.has_value(), !moves_residents) << i;
    if (!moves) continue;
    ++read;
    EXPECT_EQ(SwapTiming(*view, *problem.budget_bytes).as_placed(*moves).fits, true) << i;
    SwapOptions from_known = limited(1);
    from_known.local_search = false;
    from_known.spans = longer.spans;
    const SwapOutcome alone = add_transfers(problem, runs, from_known);
    from_known.known = known.sequence;
    const SwapOutcome made = add_transfers(problem, runs, from_known);
    ASSERT_FALSE(made.sequence.empty()) << i;
    EXPECT_LE(made.seconds, known.seconds * (1 + 1e-12)) << i;
    better += alone.sequence.empty() || made.seconds < alone.seconds * (1 - 1e-12);
    // Other runs, and moves of what is no movable.
    EXPECT_FALSE(read_moves(*view, std::span(known.sequence).subspan(1)));
  }
  EXPECT_GT(read, 40);
  EXPECT_GT(better, 5);
}

TEST(Swap, TheSameAnswerEveryTime) {
  Rng rng(3);
  for (int i = 0; i < 50; ++i) {
    ScheduleProblem problem = random_swap_problem(rng, 40);
    const auto runs = in_given_order(problem);
    const auto whole = plan::simulate_sequence(problem, runs);
    problem.budget_bytes = whole->peak_bytes * 3 / 4;
    const SwapOptions options = limited(100'000);
    EXPECT_EQ(add_transfers(problem, runs, options).sequence,
              add_transfers(problem, runs, options).sequence);
  }
}

}  // namespace
}  // namespace lowtide::remat
