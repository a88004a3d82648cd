// The incremental state against the simulator: after every one of thousands of random edits, bytes
// at each run, overflow and time are what simulate_sequence finds from the sequence alone; after
// undo, everything is as it was.
#include "remat/search/sequence_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/rng.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "plan/tick_scale.h"
#include "remat/search/proposals.h"
#include "remat/search/sequence_score.h"
#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

// Bytes at each run, without what is always there.
std::vector<double> bytes_of(const SequenceState& state) {
  std::vector<double> bytes;
  const Timeline& timeline = state.timeline();
  for (NodeId node = timeline.next(state.begin_node()); node != state.end_node();
       node = timeline.next(node))
    bytes.push_back(timeline.bytes(node));
  return bytes;
}

void expect_state_equals_simulation(const plan::ScheduleProblem& problem,
                                    const SequenceState& state) {
  const auto profile = plan::simulate_sequence(problem, actions_of(state.sequence()));
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  const std::vector<double> bytes = bytes_of(state);
  ASSERT_EQ(bytes.size(), profile->action_bytes.size());
  double overflow = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto expected = static_cast<double>(profile->action_bytes[i] - problem.resident_bytes);
    ASSERT_EQ(bytes[i], expected) << "at run " << i;
    overflow += std::max(0.0, expected - state.table().capacity());
  }
  const double at_end = state.timeline().bytes(state.end_node());
  overflow += std::max(0.0, at_end - state.table().capacity());
  ASSERT_EQ(state.overflow(), overflow);
  const SequenceScore score = score_of(state.table(), state.sequence());
  ASSERT_EQ(score.overflow, overflow);
  ASSERT_EQ(score.extra_cost, state.extra_cost());
  const plan::TickScale ticks(problem);  // whole seconds are whole ticks
  ASSERT_EQ(state.extra_cost(),
            std::llround((profile->run_seconds - profile->once_seconds) * ticks.per_second()));
}

plan::ScheduleProblem random_problem(const plan::RandomSchedule& shape, Rng& rng) {
  plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  problem.budget_bytes = problem.resident_bytes + rng.between(0, 4 * shape.max_bytes);
  return problem;
}

// One insertion or removal, if the one that was drawn is allowed.
void random_edit(SequenceState& state, Rng& rng) {
  const auto sequence_nodes = [&] {
    std::vector<NodeId> nodes;
    for (NodeId node = state.begin_node(); node != state.end_node();
         node = state.timeline().next(node))
      nodes.push_back(node);
    return nodes;
  }();
  const NodeId node = sequence_nodes[rng.below(sequence_nodes.size())];
  const SchedOpId op(rng.below(state.table().op_count()));
  if (rng.below(2) == 0) {
    if (state.table().may_rerun(op) && state.can_insert(op, node)) state.insert_after(node, op);
  } else if (node != state.begin_node() && state.can_remove(node)) {
    state.remove(node);
  }
}

TEST(SequenceState, EveryEditEqualsASimulationFromTheBeginning) {
  Rng rng(11);
  plan::RandomSchedule shape;
  shape.max_ops = 12;
  shape.in_place_rate = 0.6;
  shape.output_rate = 0.15;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const plan::ScheduleProblem problem = random_problem(shape, rng);
    ASSERT_TRUE(plan::check(problem));
    const ActionTable table(problem);
    SequenceState state(table, incoming(table));
    ASSERT_NO_FATAL_FAILURE(expect_state_equals_simulation(problem, state));
    for (int edit = 0; edit < 60; ++edit) {
      random_edit(state, rng);
      ASSERT_NO_FATAL_FAILURE(expect_state_equals_simulation(problem, state)) << "edit " << edit;
    }
  }
}

TEST(SequenceState, UndoRestoresEverything) {
  Rng rng(12);
  plan::RandomSchedule shape;
  shape.min_ops = 8;
  shape.max_ops = 40;
  shape.reader_rate = 0.08;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const plan::ScheduleProblem problem = random_problem(shape, rng);
    const ActionTable table(problem);
    SequenceState state(table, incoming(table));
    for (int step = 0; step < 30; ++step) {
      const auto sequence = state.sequence();
      const auto bytes = bytes_of(state);
      const double overflow = state.overflow();
      const int64_t cost = state.extra_cost();
      const size_t mark = state.mark();
      for (uint64_t edits = rng.below(12); edits > 0; --edits) random_edit(state, rng);
      if (rng.below(3) == 0) continue;
      state.undo_to(mark);
      ASSERT_EQ(state.sequence(), sequence);
      ASSERT_EQ(bytes_of(state), bytes);
      ASSERT_EQ(state.overflow(), overflow);
      ASSERT_EQ(state.extra_cost(), cost);
    }
    ASSERT_NO_FATAL_FAILURE(expect_state_equals_simulation(problem, state));
  }
}

// Long sequences, so that buckets of the timeline fill up, empty and are spread out.
TEST(SequenceState, ProposalsLeaveCorrectSequences) {
  Rng rng(13);
  plan::RandomSchedule shape;
  shape.min_ops = 50;
  shape.max_ops = 120;
  shape.reader_rate = 0.03;
  shape.control_rate = 0.002;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const plan::ScheduleProblem problem = random_problem(shape, rng);
    const ActionTable table(problem);
    SequenceState state(table, incoming(table));
    Proposals proposals(state, {}, rng);
    for (int step = 0; step < 400; ++step) {
      const size_t mark = state.mark();
      if (!proposals.make() || rng.below(2) == 0) state.undo_to(mark);
      if (step % 8 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(expect_state_equals_simulation(problem, state));
    }
  }
}

TEST(SequenceState, SizesBeyondWholeDoublesAreRoundedUp) {
  Rng rng(14);
  plan::ScheduleProblem problem = plan::random_schedule_problem({}, rng);
  for (auto& value : problem.values) value.bytes = (int64_t{1} << 58) + 1;
  problem.budget_bytes = int64_t{1} << 61;
  problem.in_place.clear();
  const ActionTable table(problem);
  double total = 0;
  for (const SchedValueId v : table.values()) total += table.bytes(v);
  EXPECT_LE(total, 0x1.0p51);
  EXPECT_LE(table.capacity() / table.bytes(SchedValueId(0)), 8.0);
}

}  // namespace
}  // namespace lowtide::remat
