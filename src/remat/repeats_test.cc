// Siblings in repeated structure are found without names, borders or an order, and schedules stay
// correct when what one block does is copied to another.
#include "remat/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/sequence_simulator.h"
#include "remat/proposals.h"

namespace lowtide::remat {
namespace {

using plan::SchedOpId;
using plan::ScheduleProblem;

constexpr int kBlocks = 6;
constexpr int kOpsOfBlock = 2;  // forward; one backward

// Blocks of a wide and a narrow op each, then the loss, then one backward op per block, which reads
// what both made.
ScheduleProblem blocks() {
  ScheduleProblem problem;
  const auto add = [&](double seconds, int64_t bytes, std::vector<size_t> inputs) {
    const SchedOpId id = problem.ops.push_back({"", seconds, true, 0});
    for (const size_t v : inputs) problem.values[plan::SchedValueId(v)].readers.push_back(id);
    plan::SchedValue made;
    made.bytes = bytes;
    made.producer = id;
    problem.values.push_back(std::move(made));
    return id.index();
  };
  std::vector<size_t> wide, narrow;
  for (int i = 0; i < kBlocks; ++i) {
    wide.push_back(add(2, 40, i == 0 ? std::vector<size_t>{} : std::vector{narrow.back()}));
    narrow.push_back(add(3, 10, {wide.back()}));
  }
  size_t gradient = add(1, 10, {narrow.back()});
  for (int i = kBlocks; i-- > 0;) {
    const auto at = static_cast<size_t>(i);
    gradient = add(4, 10, {wide[at], narrow[at], gradient});
  }
  return problem;
}

int backward_of(int block) {
  return kBlocks * kOpsOfBlock + kBlocks - block;
}

TEST(Repeats, OpsOfInnerBlocksAreAlikeAndThoseAtTheBordersAreNot) {
  const ScheduleProblem problem = blocks();
  ASSERT_TRUE(plan::check(problem));
  const ActionTable table(problem);
  const Repeats repeats(table);
  EXPECT_TRUE(repeats.any());
  for (const int op : {2 * kOpsOfBlock, 2 * kOpsOfBlock + 1, backward_of(2)}) {
    const auto alike = repeats.alike(op);
    EXPECT_GT(alike.size(), 1u) << op;
    for (const int other : alike) EXPECT_EQ(table.cost(other), table.cost(op));
  }
  EXPECT_EQ(repeats.alike(0).size(), 1u);
  EXPECT_EQ(repeats.alike(kBlocks * kOpsOfBlock).size(), 1u);
}

TEST(Repeats, TheMapTakesABlockToItsSiblingBothWays) {
  const ScheduleProblem problem = blocks();
  const ActionTable table(problem);
  const Repeats repeats(table);
  const int from = 2 * kOpsOfBlock, to = 3 * kOpsOfBlock;
  ASSERT_TRUE(std::ranges::count(repeats.alike(from), to) == 1);
  SiblingMap map(table);
  map.grow(repeats, from, to, 8);
  EXPECT_EQ(map.image(from), to);
  EXPECT_EQ(map.image(from + 1), to + 1);
  EXPECT_EQ(map.image(backward_of(2)), backward_of(3));
  for (const auto& [a, b] : map.pairs()) {
    EXPECT_EQ(table.cost(a), table.cost(b));
    EXPECT_EQ(map.image(b), -1) << "no op is on both sides";
  }
  map.grow(repeats, to, from, 1);
  EXPECT_EQ(map.image(to), from);
  EXPECT_EQ(map.image(from), -1) << "an earlier map is forgotten";
}

TEST(Repeats, CopyingToSiblingsKeepsSchedulesCorrect) {
  ScheduleProblem problem = blocks();
  problem.budget_bytes = 200;
  const ActionTable table(problem);
  const Repeats repeats(table);
  std::vector<int> order;
  for (int op = 0; op < table.ops(); ++op) order.push_back(op);
  SequenceState state(table, order);
  Rng rng(5);
  ProposalOptions options;
  options.repeats = &repeats;
  Proposals proposals(state, options, rng);
  int copies = 0;
  for (int i = 0; i < 100'000; ++i) {
    const size_t mark = state.mark();
    const bool made = proposals.make() && state.sequence().size() < 60;
    if (!made) {
      state.undo_to(mark);
      continue;
    }
    state.forget_log();
    if (proposals.kind() != 6) continue;
    ++copies;
    std::vector<plan::SchedAction> sequence;
    for (const int op : state.sequence())
      sequence.push_back(plan::SchedAction::run(SchedOpId(static_cast<size_t>(op))));
    const auto profile = plan::simulate_sequence(problem, sequence);
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    EXPECT_EQ(static_cast<int64_t>(state.timeline().peak()), profile->peak_bytes);
  }
  EXPECT_GT(copies, 20);
}

}  // namespace
}  // namespace lowtide::remat
