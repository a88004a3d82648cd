// How often each kind of change is proposed, with all ideas and without some. (That what is
// proposed is correct: sequence_state_test.cc.)
#include "remat/search/proposals.h"

#include <gtest/gtest.h>

#include <map>

#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

using Kind = ProposalKind;

constexpr int kMade = 100'000;

plan::ScheduleProblem small_chain() {
  plan::ScheduleProblem problem;
  for (int i = 0; i < 6; ++i) {
    plan::SchedOp op;
    op.seconds = 1;
    op.may_rerun = true;
    plan::SchedValue value;
    value.bytes = 10;
    value.producer = problem.ops.push_back(std::move(op));
    if (i > 0)
      problem.values[plan::SchedValueId(static_cast<size_t>(i - 1))].readers.push_back(
          value.producer);
    problem.values.push_back(std::move(value));
  }
  problem.budget_bytes = 1000;
  return problem;
}

// Of each kind, by thousand proposals.
std::map<Kind, double> rates(const ProposalOptions& options, int64_t budget) {
  plan::ScheduleProblem problem = small_chain();
  problem.budget_bytes = budget;
  const ActionTable table(problem);
  SequenceState state(table, incoming(table));
  Rng rng(7);
  Proposals proposals(state, options, rng);
  std::map<Kind, double> counted;
  for (int i = 0; i < kMade; ++i) {
    proposals.make();
    counted[proposals.kind()] += 1000.0 / kMade;
    state.undo_to(0);
  }
  return counted;
}

TEST(Proposals, KindsComeAsOftenAsTheirWeights) {
  const std::map<Kind, double> fits = rates({}, 1000), over = rates({}, 15);
  const std::map<Kind, double> expected = {{Kind::kMove, 200},       {Kind::kDropStretch, 15},
                                           {Kind::kKeepStretch, 15}, {Kind::kExchange, 100},
                                           {Kind::kDrop, 320},       {Kind::kKeep, 350}};
  for (const auto& [kind, rate] : expected) {
    const double shift = kind == Kind::kDrop ? 100 : kind == Kind::kKeep ? -100 : 0;
    EXPECT_NEAR(fits.at(kind), rate, 5) << static_cast<int>(kind);
    EXPECT_NEAR(over.at(kind), rate + shift, 5) << static_cast<int>(kind);
  }
}

TEST(Proposals, WhatIsOffLeavesTheOthersTheirProportions) {
  const std::map<Kind, double> all = rates({}, 1000);
  ProposalOptions no_moves, no_blocks, no_exchanges;
  no_moves.order_moves = no_blocks.stretch_moves = no_exchanges.exchanges = false;
  for (const ProposalOptions& options : {no_moves, no_blocks, no_exchanges}) {
    const std::map<Kind, double> some = rates(options, 1000);
    EXPECT_EQ(some.contains(Kind::kMove), options.order_moves);
    EXPECT_EQ(some.contains(Kind::kDropStretch), options.stretch_moves);
    EXPECT_EQ(some.contains(Kind::kKeepStretch), options.stretch_moves);
    EXPECT_EQ(some.contains(Kind::kExchange), options.exchanges);
    double left = 0;
    for (const auto& [kind, rate] : some) left += all.at(kind);
    for (const auto& [kind, rate] : some)
      EXPECT_NEAR(rate, all.at(kind) * 1000 / left, 8) << static_cast<int>(kind);
  }
}

TEST(Proposals, WhatCostsTooMuchIsNotBegun) {
  const plan::ScheduleProblem problem = small_chain();
  const ActionTable table(problem);
  SequenceState state(table, incoming(table));
  ProposalOptions options;
  options.order_moves = options.exchanges = false;
  Rng rng(7);
  Proposals proposals(state, options, rng);
  for (int i = 0; i < 1000; ++i) {
    proposals.make(0);
    EXPECT_LE(state.extra_cost(), 0);
    state.undo_to(0);
  }
}

}  // namespace
}  // namespace lowtide::remat
