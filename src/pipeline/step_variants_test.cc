// Variants of a step by moves: which are next to which, each graph once, those of no use dropped.
// The graphs are made here; what real moves come to: tests/split_test.cc.
#include "pipeline/step_variants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/testing/layers.h"

namespace lowtide::pipeline {
namespace {

class StepVariantsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(variants_.begin(mlp(3, 16, 4)).value()); }

  // Layers are added by `deeper`, and by blocks; `nothing` and `broken` are of no use.
  StepMoves moves() {
    StepMoves moves;
    for (const char* name : {"deeper", "nothing", "broken"})
      moves.moves.push_back({.rewrites = {name}});
    moves.moves.push_back({.query_blocks = 2});
    moves.moves.push_back({.query_blocks = 4});
    moves.step = [this](const Candidate& with) -> Result<MovedStep> {
      ++made_;
      const auto has = [&](const char* name) {
        return std::find(with.rewrites.begin(), with.rewrites.end(), name) != with.rewrites.end();
      };
      if (has("broken")) return error(ErrorCode::kInput, "broken");
      const int deeper = (has("deeper") ? 1 : 0) + 2 * static_cast<int>(with.query_blocks);
      return MovedStep{mlp(3 + deeper, 16, 4)};
    };
    return moves;
  }
  size_t use(size_t variant) {
    size_t useful = 0;
    for (const size_t next : variants_.next_to(variant))
      useful += variants_.make(next, workers_) ? 1 : 0;
    return useful;
  }

  const OptimizeOptions options_ = options_on_cpu();
  const LabelSearchTuning tuning_;
  Workers workers_{1};
  StepVariants variants_{options_, tuning_};
  int made_ = 0;
};

TEST_F(StepVariantsTest, WithoutMovesThereIsTheGivenStep) {
  EXPECT_FALSE(variants_.has_moves());
  EXPECT_TRUE(variants_.next_to(0).empty());
  EXPECT_TRUE(variants_.make(0, workers_));
  EXPECT_EQ(variants_.posed(0).most_parts(), 16);
  EXPECT_FALSE(variants_.posed(0).neighbours({}).value().empty());
}

TEST_F(StepVariantsTest, AStepWithoutAClassHasNone) {
  ir::Graph graph;
  graph.set_output(apply(graph, "Tanh", {add_value(graph, "x", {}, Category::kInput)}), true);
  EXPECT_FALSE(StepVariants(options_, tuning_).begin(graph).value());
}

TEST_F(StepVariantsTest, MovesOfNoUseAreTriedOnce) {
  variants_.allow(moves(), 100);
  const std::vector<size_t> first = variants_.next_to(0);
  EXPECT_EQ(first.size(), 5U);
  EXPECT_EQ(use(0), 3U);  // deeper, and blocks
  EXPECT_EQ(made_, 5);
  EXPECT_EQ(variants_.next_to(0).size(), 3U);
  EXPECT_EQ(use(0), 3U);
  EXPECT_EQ(made_, 5);  // once each
  // What changes nothing of the given step is not tried on top of another.
  for (const size_t next : variants_.next_to(0))
    for (const size_t deeper : variants_.next_to(next))
      for (const std::string& name : variants_.moves(deeper).rewrites) EXPECT_EQ(name, "deeper");
}

TEST_F(StepVariantsTest, MovesComeTogetherInOneWay) {
  variants_.allow(moves(), 100);
  use(0);
  size_t both = 0, found = 0;
  for (const size_t one : variants_.next_to(0))
    for (const size_t next : variants_.next_to(one)) {
      const Candidate& moved = variants_.moves(next);
      if (moved.query_blocks != 2 || moved.rewrites.empty()) continue;
      EXPECT_EQ(moved.rewrites, std::vector<std::string>{"deeper"});
      EXPECT_TRUE(both == 0 || both == next);  // from either side
      both = next;
      ++found;
    }
  EXPECT_EQ(found, 2U);
  ASSERT_TRUE(variants_.make(both, workers_));
  EXPECT_NE(variants_.hash(both), variants_.hash(0));
  EXPECT_EQ(variants_.problem(both).step().op_count(), mlp(8, 16, 4).op_count());
  // Numbers of blocks are not moves on top of each other.
  for (const size_t next : variants_.next_to(both))
    EXPECT_NE(variants_.moves(next).query_blocks, 4);
}

// Cuts along other axes: one at a time, with rewrites. No level is named by what they make.
TEST_F(StepVariantsTest, CutsLeaveTheirPartsToThemselves) {
  StepMoves cuts = moves();
  const ir::Graph deeper = mlp(5, 16, 4);
  for (const int64_t parts : {2, 4})
    cuts.moves.push_back({.cuts = {{.ops = "layer", .axis = "n", .parts = parts}}});
  bool may_be_heads = true;
  cuts.step = [&](const Candidate&) -> Result<MovedStep> {
    MovedStep made{deeper};
    if (!may_be_heads)
      made.how.made =
          IdVector<ir::OpId, LabelledStep::Made>(deeper.op_count(), LabelledStep::Made::kPart);
    return made;
  };
  variants_.allow(cuts, 100);
  const auto cut = [&](size_t from) {
    std::vector<size_t> found;
    for (const size_t next : variants_.next_to(from))
      if (variants_.moves(next).cuts != variants_.moves(from).cuts) found.push_back(next);
    return found;
  };
  const std::vector<size_t> first = cut(0);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(cut(first[0]).empty()) << "two cuts along one axis";
  EXPECT_EQ(variants_.next_to(first[0]).size(), 5U) << "with rewrites or blocks";
  const auto levels = [&](const PosedVariant& posed) {
    const auto neighbours = posed.neighbours({.parts = 2}).value();
    return std::count_if(neighbours.begin(), neighbours.end(),
                         [](const fission::Labels& labels) { return !labels.nests.empty(); });
  };
  ASSERT_TRUE(variants_.make(first[0], workers_));
  EXPECT_GT(levels(variants_.posed(first[0])), 0);
  may_be_heads = false;
  StepVariants others(options_, tuning_);
  ASSERT_TRUE(others.begin(mlp(3, 16, 4)).value());
  others.allow(cuts, 100);
  const std::vector<size_t> next = others.next_to(0);
  ASSERT_TRUE(others.make(next.back(), workers_));
  EXPECT_EQ(levels(others.posed(next.back())), 0);
  EXPECT_FALSE(others.posed(next.back()).neighbours({}).value().empty());
}

// Nor do cuts take places from other moves.
TEST_F(StepVariantsTest, CutsAreCountedByThemselves) {
  StepMoves all = moves();
  EXPECT_EQ(variants_.most_cut_parts(), 0);
  int made = 0;  // each another step
  for (const int64_t parts : {2, 4, 8})
    all.moves.insert(all.moves.begin(), {.cuts = {{.ops = "layer", .axis = "n", .parts = parts}}});
  all.step = [&](const Candidate&) -> Result<MovedStep> {
    return MovedStep{mlp(8, 16, 4 + ++made)};
  };
  variants_.allow(std::move(all), 3);
  EXPECT_EQ(variants_.most_cut_parts(), 8);
  const auto use = [&](bool cuts) {
    size_t used = 0;
    for (const size_t next : variants_.next_to(0))
      if (variants_.moves(next).cuts.empty() != cuts) used += variants_.make(next, workers_);
    return used;
  };
  EXPECT_EQ(use(true), 3U);
  EXPECT_EQ(use(false), 2U) << "and the given step";
}

// The limit is for those that are made: what is of no use takes no place.
TEST_F(StepVariantsTest, ThereAreNoMoreThanAreAllowed) {
  StepMoves last = moves();
  std::swap(last.moves.front(), last.moves[2]);  // those of no use first
  variants_.allow(std::move(last), 3);
  EXPECT_EQ(variants_.next_to(0).size(), 5U);
  EXPECT_EQ(use(0), 2U);
  EXPECT_EQ(made_, 4);  // the last one is not tried
  EXPECT_EQ(use(0), 2U);
  EXPECT_EQ(made_, 4);
}

}  // namespace
}  // namespace lowtide::pipeline
