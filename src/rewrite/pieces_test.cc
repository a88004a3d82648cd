#include "rewrite/pieces.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

constexpr PiecesOptions kAll = {.instead_of_in_place = true};

struct Rows : GraphWriter {
  ValueId relu(ValueId x) { return op("Relu", {x}); }
  ValueId concat(std::vector<ValueId> parts, int64_t axis = 0) {
    return op("Concat", std::move(parts), {{"axis", axis}});
  }
  int joined() {
    const auto report = join_pieces(graph_, 64, kAll);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    return report ? report->joined : -1;
  }
};

TEST(Pieces, AConcatOfValuesMadeInTheStepIsAViewOnThem) {
  Rows w;
  const ValueId x = w.given("x", {2, 16});
  const ValueId a = w.relu(x), b = w.op("Tanh", {x});
  const ValueId both = w.concat({a, b});
  w.graph().set_output(w.relu(both), true);
  const auto report = join_pieces(w.graph(), 64, kAll);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->joined, 1);
  const auto whole = report->graph.find_value(w.graph().value(both).name);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(report->graph.value(*whole).alias, ir::Alias::kPieces);
  const auto memory = report->graph.memory_of(*whole);
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(report->graph.storage(memory[1].storage).root,
            report->graph.find_value(w.graph().value(b).name));
  EXPECT_EQ(memory[1].offset_bytes, sym::Expr(128));
}

TEST(Pieces, DenseBlocksJoinTheSameValuesAgain) {
  Rows w;
  const ValueId x = w.given("x", {1, 16});
  std::vector<ValueId> parts = {w.relu(x)};
  for (int i = 0; i < 4; ++i) parts.push_back(w.relu(w.concat(parts)));
  w.graph().set_output(parts.back(), true);
  EXPECT_EQ(w.joined(), 4);
}

TEST(Pieces, WholesAreJoinedToWholes) {
  Rows w;
  const ValueId x = w.given("x", {1, 16});
  const ValueId inner = w.concat({w.relu(x), w.relu(x)});
  const ValueId outer = w.concat({w.relu(x), inner});
  w.graph().set_output(outer, true);
  w.graph().set_output(w.relu(inner), true);
  const auto report = join_pieces(w.graph(), 64, kAll);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->joined, 2);
  EXPECT_EQ(report->graph.memory_of(*report->graph.find_value(w.graph().value(outer).name)).size(),
            3u);
}

TEST(Pieces, CopiesStayWhereNoDistanceFits) {
  {
    Rows w;  // between the two orders of a and b
    const ValueId x = w.given("x", {1, 16}), a = w.relu(x), b = w.relu(x);
    w.graph().set_output(w.relu(w.concat({a, b})), true);
    w.graph().set_output(w.relu(w.concat({b, a})), true);
    EXPECT_EQ(w.joined(), 1);
  }
  {
    Rows w;  // b and c want the place behind a
    const ValueId x = w.given("x", {1, 16}), a = w.relu(x);
    w.graph().set_output(w.relu(w.concat({a, w.relu(x)})), true);
    w.graph().set_output(w.relu(w.concat({a, w.relu(x)})), true);
    EXPECT_EQ(w.joined(), 1);
  }
  {
    Rows w;  // one value twice
    const ValueId a = w.relu(w.given("x", {1, 16}));
    w.graph().set_output(w.relu(w.concat({a, a})), true);
    EXPECT_EQ(w.joined(), 0);
  }
}

TEST(Pieces, CopiesStayWhereSomebodyMayWorkInPlace) {
  const auto joined = [](bool on_whole, bool on_piece) {
    Rows w;
    const ValueId x = w.given("x", {2, 16}), a = w.relu(x);
    const ValueId both = w.concat({a, w.relu(x)});
    w.graph().set_output(both, !on_whole);
    if (on_whole) w.graph().set_output(w.relu(both), true);
    if (on_piece) w.graph().set_output(w.relu(a), true);
    return join_pieces(w.graph(), 64).value().joined;
  };
  EXPECT_EQ(joined(false, false), 1);
  EXPECT_EQ(joined(true, false), 0);
  EXPECT_EQ(joined(false, true), 0);
}

TEST(Pieces, CopiesStayWhereAViewIsNotPossible) {
  {
    Rows w;  // not the outermost dimension
    const ValueId x = w.given("x", {2, 16});
    w.graph().set_output(w.relu(w.concat({w.relu(x), w.relu(x)}, 1)), true);
    EXPECT_EQ(w.joined(), 0);
  }
  {
    Rows w;  // the second would begin at byte 12
    const ValueId x = w.given("x", {1, 3});
    w.graph().set_output(w.relu(w.concat({w.relu(x), w.relu(x)})), true);
    EXPECT_EQ(w.joined(), 0);
  }
  {
    Rows w;  // what is there before the step stays where it is
    const ValueId x = w.given("x", {1, 16});
    w.graph().set_output(w.relu(w.concat({w.relu(x), x})), true);
    EXPECT_EQ(w.joined(), 0);
  }
  {
    Rows w;  // a part of a storage
    const ValueId a = w.relu(w.given("x", {4, 16}));
    const ValueId cut =
        w.op("Slice", {a}, {{"starts", ir::Dims{2, 0}}, {"sizes", ir::Dims{2, 16}}});
    w.graph().set_output(w.relu(w.concat({w.relu(a), cut})), true);
    EXPECT_EQ(w.joined(), 0);
  }
  {
    Rows w;  // nobody reads the whole
    const ValueId x = w.given("x", {1, 16});
    w.concat({w.relu(x), w.relu(x)});
    EXPECT_EQ(w.joined(), 0);
  }
}

}  // namespace
}  // namespace lowtide::rewrite
