// Moves in the order: what they leave is what a simulation of the sequence says, each op runs as
// often as before, and aimed ones take away what they are to take away.
#include "remat/search/order_moves.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

void expect_equals_simulation(const plan::ScheduleProblem& problem, const SequenceState& state) {
  const auto profile = plan::simulate_sequence(problem, actions_of(state.sequence()));
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  size_t i = 0;
  const Timeline& timeline = state.timeline();
  for (NodeId node = timeline.next(state.begin_node()); node != state.end_node();
       node = timeline.next(node), ++i)
    ASSERT_EQ(timeline.bytes(node),
              static_cast<double>(profile->action_bytes[i] - problem.resident_bytes));
}

TEST(OrderMoves, KeepTheStateConsistentAndTheRunsTheSame) {
  Rng rng(21);
  plan::RandomSchedule shape;
  shape.min_ops = 10;
  shape.max_ops = 60;
  shape.in_place_rate = 0.3;
  shape.reader_rate = 0.05;
  shape.control_rate = 0.01;
  int moved = 0, relieved = 0;
  for (int round = 0; round < 60; ++round) {
    plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    problem.budget_bytes = problem.resident_bytes + rng.between(0, 4 * shape.max_bytes);
    const ActionTable table(problem);
    SequenceState state(table, incoming(table));
    OrderMoves moves(state, rng);
    for (int step = 0; step < 60; ++step) {
      const NodeId node = state.timeline().node_from(SlotId(rng.below(state.timeline().slots())));
      if (!node.valid() || node == state.begin_node() || node == state.end_node()) continue;
      const size_t mark = state.mark();
      const double bytes = state.timeline().bytes(node);
      const bool aimed = rng.below(2) == 0;
      if (!(aimed ? moves.relieve(node) : moves.anywhere(node))) {
        state.undo_to(mark);
        continue;
      }
      ++moved;
      relieved +=
          aimed && state.timeline().slot(node).valid() && state.timeline().bytes(node) < bytes;
      ASSERT_NO_FATAL_FAILURE(expect_equals_simulation(problem, state)) << round;
      std::vector<SchedOpId> runs = state.sequence();
      std::ranges::sort(runs);
      ASSERT_EQ(runs, incoming(table));
      ASSERT_EQ(state.extra_cost(), 0);
    }
  }
  EXPECT_GT(moved, 300);
  EXPECT_GT(relieved, 50);
}

// 0 makes a large value that only 3 reads; 1 and 2 are in its way.
plan::ScheduleProblem idle_value() {
  plan::ScheduleProblem problem;
  for (int i = 0; i < 4; ++i) {
    plan::SchedOp op;
    op.seconds = 1;
    plan::SchedValue value;
    value.bytes = i == 0 ? 100 : 10;
    value.producer = problem.ops.push_back(std::move(op));
    problem.values.push_back(std::move(value));
  }
  const auto read = [&](size_t v, size_t op) {
    problem.values[plan::SchedValueId(v)].readers.push_back(plan::SchedOpId(op));
  };
  read(0, 3);
  read(1, 2);
  read(2, 3);
  problem.budget_bytes = 1000;
  return problem;
}

TEST(OrderMoves, AMakerGoesPastTheMomentToItsFirstReader) {
  const ActionTable table(idle_value());
  Rng rng(22);
  bool found = false;
  for (int i = 0; i < 50 && !found; ++i) {
    SequenceState state(table, incoming(table));
    OrderMoves moves(state, rng);
    found = moves.relieve(state.runs(op_at(1)).front()) && state.sequence() == ops_at({1, 2, 0, 3});
    if (!found) continue;
    EXPECT_EQ(state.timeline().bytes(state.runs(op_at(1)).front()), 10);
  }
  EXPECT_TRUE(found);
}

// 0 makes a large value, 3 is its last reader and needs what 2 makes: both go before 1.
TEST(OrderMoves, AReaderGoesBeforeTheMomentWithWhatItNeeds) {
  plan::ScheduleProblem problem = idle_value();
  problem.values[plan::SchedValueId(1)].readers.clear();
  const ActionTable table(problem);
  Rng rng(23);
  SequenceState state(table, incoming(table));
  OrderMoves moves(state, rng);
  bool both = false;
  for (int i = 0; i < 200 && !both; ++i) {
    const size_t mark = state.mark();
    both = moves.relieve(state.runs(op_at(1)).front()) && state.sequence() == ops_at({0, 2, 3, 1});
    if (!both) state.undo_to(mark);
  }
  EXPECT_TRUE(both);
  EXPECT_EQ(state.timeline().bytes(state.runs(op_at(1)).front()), 10);
}

}  // namespace
}  // namespace lowtide::remat
