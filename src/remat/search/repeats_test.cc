// Repeated structure is found without names, borders or an order, what one block does arrives in
// another, and schedules stay correct when it does.
#include "remat/search/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/sequence_simulator.h"
#include "remat/search/blocks.h"
#include "remat/search/proposals.h"
#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

using plan::SchedOpId;
using plan::ScheduleProblem;

constexpr int kBlocks = 8;
constexpr int kOpsOfBlock = 2;  // forward; one backward

// Blocks of a wide and a narrow op each, then the loss, then one backward op per block, which reads
// what both made.
ScheduleProblem network() {
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

SchedOpId backward_of(int block) {
  return op_at(kBlocks * kOpsOfBlock + kBlocks - block);
}

TEST(Repeats, OpsOfInnerBlocksAreAlikeAndThoseAtTheBordersAreNot) {
  const ScheduleProblem problem = network();
  ASSERT_TRUE(plan::check(problem));
  const ActionTable table(problem);
  const Repeats repeats(table);
  EXPECT_TRUE(repeats.any());
  for (const SchedOpId op : {op_at(2 * kOpsOfBlock), op_at(2 * kOpsOfBlock + 1), backward_of(2)}) {
    const auto alike = repeats.alike(op);
    EXPECT_GT(alike.size(), 1u) << op.index();
    for (const SchedOpId other : alike) EXPECT_EQ(table.cost(other), table.cost(op));
  }
  EXPECT_EQ(repeats.alike(op_at(0)).size(), 1u);
  EXPECT_EQ(repeats.alike(op_at(kBlocks * kOpsOfBlock)).size(), 1u);
}

TEST(Blocks, OpsOfABlockPlayTheRolesOfThoseOfTheNext) {
  const ScheduleProblem problem = network();
  const ActionTable table(problem);
  const Blocks blocks(table, Repeats(table));
  ASSERT_GE(blocks.count(), 3u);
  for (const int block : {2, 3}) {
    const int wide = block * kOpsOfBlock, narrow = wide + 1;
    const SchedOpId back = backward_of(block);
    EXPECT_EQ(blocks.shifted(op_at(wide), 1), op_at(wide + kOpsOfBlock));
    EXPECT_EQ(blocks.shifted(op_at(narrow), 1), op_at(narrow + kOpsOfBlock));
    EXPECT_EQ(blocks.shifted(back, 1), backward_of(block + 1));
    EXPECT_EQ(blocks.shifted(blocks.shifted(back, 1), -1), back);
    EXPECT_EQ(blocks.shifted(back, static_cast<int>(blocks.count())), SchedOpId::none());
  }
  const SchedOpId loss = op_at(kBlocks * kOpsOfBlock);
  EXPECT_FALSE(blocks.block_of(loss).valid());
  EXPECT_EQ(blocks.shifted(loss, 1), loss) << "what is in no block stays";
}

TEST(Blocks, WithoutRepetitionThereAreNone) {
  ScheduleProblem problem = network();
  for (SchedOpId op : problem.ops.ids()) problem.ops[op].seconds += static_cast<double>(op.index());
  const ActionTable table(problem);
  EXPECT_EQ(Blocks(table, Repeats(table)).count(), 0u);
}

TEST(Blocks, APatternIsCopiedWithItsPlacesAndReplacesWhatWasThere) {
  const ScheduleProblem problem = network();
  const ActionTable table(problem);
  const Blocks blocks(table, Repeats(table));
  SequenceState state(table, incoming(table));
  const auto run_before = [&](SchedOpId op, SchedOpId reader) {
    state.insert_after(state.timeline().previous(state.runs(reader).front()), op);
  };
  const SchedOpId narrow = op_at(3 * kOpsOfBlock + 1), next = op_at(4 * kOpsOfBlock + 1);
  run_before(narrow, backward_of(3));
  run_before(next, backward_of(6));
  BlockCopy copy(state, blocks);
  ASSERT_TRUE(copy.copy(blocks.block_of(narrow), blocks.block_of(next)));
  EXPECT_TRUE(copy.any());
  ASSERT_EQ(state.runs(next).size(), 2u);
  EXPECT_EQ(state.timeline().next(state.runs(next)[1]), state.runs(backward_of(4)).front());
  EXPECT_EQ(state.runs(narrow).size(), 2u) << "the block that it comes from keeps it";
}

TEST(Blocks, CopyingKeepsSchedulesCorrect) {
  ScheduleProblem problem = network();
  problem.budget_bytes = 200;
  const ActionTable table(problem);
  const Blocks blocks(table, Repeats(table));
  SequenceState state(table, incoming(table));
  Rng rng(5);
  ProposalOptions options;
  options.blocks = &blocks;
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
    if (proposals.kind() != ProposalKind::kCopyBlock) continue;
    ++copies;
    const auto profile = plan::simulate_sequence(problem, actions_of(state.sequence()));
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    EXPECT_EQ(static_cast<int64_t>(state.timeline().peak()), profile->peak_bytes);
  }
  EXPECT_GT(copies, 20);
}

}  // namespace
}  // namespace lowtide::remat
