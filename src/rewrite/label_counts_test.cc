#include "rewrite/label_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rewrite/loss_classes.h"
#include "support/loss_of_rows.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

const ir::Attrs kIgnores = {{"ignore_index", int64_t{1}}};

// Whether the first axis of the first op of a kind can be cut.
bool can_cut_rows(const ir::Graph& graph, std::string_view kind) {
  for (const OpId id : graph.ops()) {
    if (graph.op(id).kind != kind) continue;
    const auto map = ops::axis_map(ops::instance_of(graph, id));
    return ops::can_split(*map, 0);
  }
  ADD_FAILURE() << "no " << kind;
  return false;
}

TEST(LabelCounts, ComputeTheSameAndFreeTheRows) {
  const std::vector<std::pair<ir::Dims, int64_t>> shapes = {
      {{7, 5}, 1}, {{2, 3, 9}, 2}, {{2, 6, 4}, 1}, {{3, 8, 2, 2}, 1}};
  for (const auto& [dims, axis] : shapes) {
    const ir::Graph graph = LossOfRows(dims, axis, kIgnores).graph();
    const auto made = count_labels_first(graph);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->ops, 2);
    EXPECT_EQ(ops_called(made->graph, "LabelCount"), 1) << "loss and gradient share it";
    expect_same_results(graph, made->graph);
    for (const char* kind : {"CrossEntropy", "CrossEntropyGrad"}) {
      EXPECT_FALSE(can_cut_rows(graph, kind)) << kind;
      EXPECT_TRUE(can_cut_rows(made->graph, kind)) << kind;
    }
    EXPECT_EQ(count_labels_first(made->graph)->ops, 0) << "a second run changes nothing";
  }
}

TEST(LabelCounts, KeepNamesAndWhatValuesAreFor) {
  const ir::Graph graph = LossOfRows({7, 5}, 1, kIgnores).graph();
  const ir::Graph after = count_labels_first(graph)->graph;
  EXPECT_EQ(after.op_count(), graph.op_count() + 1);
  for (const ValueId v : graph.values()) {
    const auto now = after.find_value(graph.value(v).name);
    ASSERT_TRUE(now.has_value()) << graph.value(v).name;
    EXPECT_EQ(after.value(*now).category, graph.value(v).category) << graph.value(v).name;
    EXPECT_EQ(after.value(*now).dims, graph.value(v).dims) << graph.value(v).name;
    EXPECT_EQ(after.value(*now).is_output, graph.value(v).is_output) << graph.value(v).name;
  }
  std::vector<std::string> names;
  for (const OpId id : after.ops())
    if (after.op(id).module == "head") names.push_back(after.op(id).name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss/label_count", "loss"}));
}

TEST(LabelCounts, OfALossTakenApartAreHandedOn) {
  const ir::Graph graph = LossOfRows({14, 5}, 1, kIgnores).graph();
  const ir::Graph counted = count_labels_first(graph)->graph;
  const ir::Graph both = loss_by_classes(counted)->graph;
  expect_same_results(graph, both);
  EXPECT_TRUE(can_cut_rows(both, "CrossEntropyMean"));
  const ir::Graph apart = loss_by_classes(graph)->graph;
  EXPECT_FALSE(can_cut_rows(apart, "CrossEntropyMean"));
  const auto later = count_labels_first(apart);
  EXPECT_EQ(later->ops, 2) << "in either order";
  EXPECT_EQ(ops_called(later->graph, "LabelCount"), 1);
  EXPECT_TRUE(can_cut_rows(later->graph, "CrossEntropyMean"));
  expect_same_results(graph, later->graph);
}

TEST(LabelCounts, LeaveALossThatDividesByAKnownNumber) {
  EXPECT_EQ(count_labels_first(LossOfRows({7, 5}, 1, {}).graph())->ops, 0);
  const ir::Dims words = {7, sym::Expr::symbol("classes")};
  EXPECT_EQ(count_labels_first(LossOfRows(words, 1, kIgnores).graph())->ops, 0);
  const ir::Dims rows = {sym::Expr::symbol("rows"), 5};
  EXPECT_EQ(count_labels_first(LossOfRows(rows, 1, kIgnores).graph())->ops, 2);
}

}  // namespace
}  // namespace lowtide::rewrite
