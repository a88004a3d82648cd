#include "rewrite/loss_classes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/graph_writer.h"
#include "support/loss_of_rows.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

TEST(LossByClasses, ComputesTheSame) {
  const std::vector<std::pair<ir::Dims, int64_t>> shapes = {
      {{7, 5}, 1}, {{2, 3, 9}, 2}, {{2, 6, 4}, 1}, {{3, 8, 2, 2}, 1}, {{5, 4}, 0}};
  for (const auto& [dims, axis] : shapes)
    for (const bool ignores : {false, true}) {
      const ir::Attrs attrs = ignores ? ir::Attrs{{"ignore_index", int64_t{1}}} : ir::Attrs{};
      const ir::Graph graph = LossOfRows(dims, axis, attrs).graph();
      const auto made = loss_by_classes(graph);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      EXPECT_EQ(made->ops, 1);
      EXPECT_EQ(ops_called(made->graph, "CrossEntropy"), 0);
      for (const char* kind : {"ReduceLogSumExp", "LabelLogits", "CrossEntropyMean"})
        EXPECT_EQ(ops_called(made->graph, kind), 1) << kind;
      expect_same_results(graph, made->graph);
      EXPECT_EQ(loss_by_classes(made->graph)->ops, 0) << "a second run changes nothing";
    }
}

TEST(LossByClasses, KeepsNamesAndWhatValuesAreFor) {
  const ir::Graph graph = LossOfRows({7, 5}, 1).graph();
  const ir::Graph after = loss_by_classes(graph)->graph;
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
  EXPECT_EQ(names, (std::vector<std::string>{"loss/log_sum_exp", "loss/label_logits", "loss"}));
}

TEST(LossByClasses, LeavesWhatItDoesNotKnow) {
  const ir::Graph symbolic = LossOfRows({7, sym::Expr::symbol("classes")}, 1).graph();
  const auto made = loss_by_classes(symbolic);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->ops, 0);
  EXPECT_EQ(ops_called(made->graph, "CrossEntropy"), 1);
  const ir::Graph of_rows = LossOfRows({sym::Expr::symbol("rows"), 5}, 1).graph();
  EXPECT_EQ(loss_by_classes(of_rows)->ops, 1) << "rows may be of any number";
  GraphWriter none;
  none.result(none.op("LogSoftmax", {none.given("x", {2, 3})}, {{"axis", int64_t{1}}}));
  EXPECT_EQ(loss_by_classes(none.graph())->ops, 0) << "log-probabilities";
}

}  // namespace
}  // namespace lowtide::rewrite
