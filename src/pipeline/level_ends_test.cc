// What joins of pieces cost where a level ends, by hand. Against the graphs of all labels of small
// steps: tests/label_oracle_test.cc.
#include "pipeline/level_ends.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op_table.h"
#include "pipeline/testing/layers.h"

namespace lowtide::pipeline {
namespace {

using fission::Cuts;
using ir::OpId;
using ir::ValueId;

// Eight rows of `columns` numbers. The ops by number: 0 made, 1 product, 2 tanh, both of `made`;
// 3 flat, 4 of_flat, a view of what `product` makes and an op on it.
struct Rows {
  explicit Rows(int64_t columns) {
    const ValueId x = add_value(graph, "x", {8, columns}, Category::kInput);
    const ValueId made = apply(graph, "Exp", {x});
    const ValueId w = add_value(graph, "w", {columns, columns}, Category::kParameter);
    const ValueId product = apply(graph, "MatMul", {made, w});
    graph.set_output(apply(graph, "Tanh", {made}), true);
    const ValueId flat = apply(graph, "Reshape", {product}, {{"shape", ir::Dims{8, columns, 1}}});
    graph.set_output(
        apply(graph, "ReduceSum", {flat}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{0}}}), true);
    rows = fission::axis_classes(graph)->front();
    EXPECT_EQ(rows.axes.size(), 5U);
    EXPECT_EQ(rows.least_extent, 8);
  }
  // In so many parts each op.
  Cuts cut(const std::vector<int64_t>& parts) const {
    Cuts cuts(graph.op_count());
    for (const fission::ClassAxis& axis : rows.axes)
      if (const int64_t many = parts[axis.op.index()]; many > 1)
        cuts[axis.op] = fission::Cut{axis.axis, fission::even_bounds(8, many, 8)};
    return cuts;
  }
  // Of a Concat as many seconds as it makes bytes; what is added to each op.
  std::vector<double> added(const std::vector<int64_t>& parts,
                            const LevelEnds::Options& options = {.alignment_bytes = 64}) const {
    const auto price = [](const plan::OpDesc& op) -> Result<double> {
      EXPECT_EQ(op.kind, "Concat");
      return static_cast<double>(plan::size_bytes(op.outputs[0]));
    };
    const auto ends = LevelEnds::make(graph, rows, price, options);
    EXPECT_TRUE(ends.has_value());
    IdVector<OpId, double> seconds(graph.op_count(), 0);
    EXPECT_TRUE(ends->add_copies(cut(parts), seconds).has_value());
    return {seconds.begin(), seconds.end()};
  }
  ir::Graph graph;
  fission::AxisClass rows;
};

using All = std::vector<double>;
constexpr double kRowsBytes = 8 * 16 * 4;

TEST(LevelEnds, OfOpsThatAreCutAlikeCostNothing) {
  for (const int64_t parts : {1, 2, 8}) {
    EXPECT_EQ(Rows(16).added({parts, parts, parts, parts, parts}), All(5, 0.0));
  }
  EXPECT_EQ(Rows(16).added({2, 4, 4, 4, 8}), All(5, 0.0));  // finer ones read slices
}

// Tanh may work in place on what it reads, so its joins are copies; those of the product are views.
TEST(LevelEnds, AreCopiedWhereTheReaderMayWorkInPlace) {
  EXPECT_EQ(Rows(16).added({4, 2, 2, 2, 2}), (All{0, 0, kRowsBytes, 0, 0}));
  EXPECT_EQ(Rows(16).added({4, 2, 4, 2, 2}), (All{0, kRowsBytes, 0, 0, 0}))  // on the pieces
      << "Tanh reads the pieces and may work in place on them";
  EXPECT_EQ(Rows(16).added({4, 2, 1, 2, 2}), (All{0, 0, kRowsBytes, 0, 0}));
}

TEST(LevelEnds, OfAllWhoReadAWholeAreOneCopy) {
  EXPECT_EQ(Rows(16).added({4, 1, 1, 1, 1}), (All{0, kRowsBytes, 0, 0, 0}));
}

// Rows of 24 bytes: pieces of two of them end nowhere where another may begin.
TEST(LevelEnds, OfPiecesThatAreNotAlignedAreCopies) {
  EXPECT_EQ(Rows(6).added({4, 2, 2, 2, 2}), (All{0, 8 * 24, 8 * 24, 0, 0}));
}

TEST(LevelEnds, AreCopiesWithoutPieces) {
  EXPECT_EQ(Rows(16).added({4, 2, 2, 2, 2}, {.alignment_bytes = 64, .pieces = false}),
            (All{0, kRowsBytes, kRowsBytes, 0, 0}));
}

// Parts of a view are slices of what it is a view on, unless that is made in the same parts.
TEST(LevelEnds, OfViewsAreCopiesUnlessTheirBaseIsCutAlike) {
  EXPECT_EQ(Rows(16).added({4, 4, 4, 4, 2}), All(5, 0.0));
  EXPECT_EQ(Rows(16).added({2, 2, 2, 4, 2}), (All{0, 0, 0, 0, kRowsBytes}));
}

}  // namespace
}  // namespace lowtide::pipeline
