// Which output a loss is attached to: the first that the model lists, whenever it is computed. And
// the names of an attached loss: what a caller feeds and reads is called "labels", "target" and
// "loss", and a model that has such a value is refused rather than given a second one beside it.
#include "autodiff/loss.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"

namespace lowtide::autodiff {
namespace {

// An input of this name, which is the output as well.
ir::Graph graph_with(const std::string& name) {
  ir::Graph graph;
  graph.name = "net";
  ir::Value value;
  value.name = name;
  value.dims = {2, 3};
  value.category = Category::kInput;
  graph.set_output(graph.add_value(std::move(value)), true);
  return graph;
}

std::string error_of(const std::string& name, LossKind kind) {
  ir::Graph graph = graph_with(name);
  const auto loss = attach_loss(graph, {.kind = kind});
  if (loss) return "";
  EXPECT_EQ(loss.error().code, ErrorCode::kUsage);
  EXPECT_EQ(graph.op_count(), 0U);
  return loss.error().message;
}

TEST(LossNames, AreTheOnesThatCallersLookFor) {
  ir::Graph graph = graph_with("y");
  const auto loss = attach_loss(graph);
  ASSERT_TRUE(loss) << loss.error().message;
  EXPECT_EQ(graph.value(*loss).name, "loss");
  ASSERT_TRUE(graph.find_value("labels"));
  ir::Graph squared = graph_with("y");
  ASSERT_TRUE(attach_loss(squared, {.kind = LossKind::kMeanSquaredError}));
  EXPECT_TRUE(squared.find_value("target"));
}

// A sum over all dims, and the same as [1 1].
TEST(LossOfTheModel, IsItsOwnOutputUnderTheNameOfLosses) {
  for (const int64_t keep : {0, 1}) {
    ir::Graph graph = graph_with("x");
    const ir::ValueId x = graph.outputs()[0];
    graph.set_output(x, false);
    const auto sum = ops::append(graph, "ReduceSum", {x},
                                 {{"axes", std::vector<sym::Expr>{0, 1}}, {"keepdims", keep}});
    ASSERT_TRUE(sum);
    const ir::ValueId total = graph.op(*sum).outputs[0];
    graph.set_output(total, true);
    const auto loss = attach_loss(graph, {.kind = LossKind::kModelOutput});
    ASSERT_TRUE(loss) << loss.error().message;
    EXPECT_EQ(graph.value(*loss).name, "loss");
    EXPECT_TRUE(graph.value(*loss).dims.empty());
    EXPECT_EQ(graph.outputs(), std::vector{*loss});
    EXPECT_FALSE(graph.find_value("labels") || graph.find_value("target"));
  }
  ir::Graph taken = graph_with("loss");
  const auto made = ops::append(taken, "ReduceSum", {taken.outputs()[0]},
                                {{"axes", std::vector<sym::Expr>{0, 1}}, {"keepdims", int64_t{0}}});
  ASSERT_TRUE(made);
  taken.set_output(taken.op(*made).outputs[0], true);
  const auto clash = attach_loss(taken, {.kind = LossKind::kModelOutput});
  ASSERT_FALSE(clash);
  EXPECT_NE(clash.error().message.find("--loss-output loss"), std::string::npos);
  ir::Graph large = graph_with("x");
  const auto refused = attach_loss(large, {.kind = LossKind::kModelOutput});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the output 'x' has dims [2, 3]; the model's own loss is one number");
}

TEST(LossOutput, MayBeChosenByName) {
  ir::Graph graph = graph_with("x");
  const auto made = ops::append(graph, "Exp", {graph.outputs()[0]}, {});
  ASSERT_TRUE(made);
  const ir::ValueId y = graph.op(*made).outputs[0];
  graph.set_output(y, true);
  const auto unknown = attach_loss(graph, {.output = "z"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "the model 'net' has no output 'z', but x, " + graph.value(y).name);
  const auto loss = attach_loss(graph, {.output = "x"});
  ASSERT_TRUE(loss);
  EXPECT_EQ(graph.value(graph.op(graph.value(*loss).producer).inputs[0]).name, "x");
}

TEST(LossOutput, IsTheFirstThatTheModelLists) {
  for (const bool early_first : {false, true}) {
    ir::Graph graph = graph_with("x");
    const ir::ValueId x = graph.outputs()[0];
    const auto early = ops::append(graph, "Exp", {x}, {});
    ASSERT_TRUE(early);
    const ir::ValueId made_early = graph.op(*early).outputs[0];
    const auto late = ops::append(graph, "Tanh", {made_early}, {});
    ASSERT_TRUE(late);
    const ir::ValueId made_late = graph.op(*late).outputs[0];
    for (const ir::ValueId id : {early_first ? made_early : made_late, made_early, made_late})
      graph.set_output(id, true);
    const auto loss = attach_loss(graph, {.kind = LossKind::kMeanSquaredError});
    ASSERT_TRUE(loss) << loss.error().message;
    EXPECT_EQ(graph.op(graph.value(*loss).producer).inputs[0],
              early_first ? made_early : made_late);
    EXPECT_EQ(graph.outputs(), std::vector{*loss});
  }
}

TEST(LossNames, AClashIsRefused) {
  EXPECT_EQ(error_of("loss", LossKind::kCrossEntropy),
            "the model 'net' has a value named 'loss', which is the name of the attached loss: "
            "rename it in the model, or take the model's own loss (--loss model)");
  EXPECT_EQ(error_of("labels", LossKind::kCrossEntropy),
            "the model 'net' has a value named 'labels', which is the name of the attached loss's "
            "input: rename it in the model, or take the model's own loss (--loss model)");
  EXPECT_NE(error_of("loss", LossKind::kMeanSquaredError), "");
  EXPECT_NE(error_of("target", LossKind::kMeanSquaredError), "");
  EXPECT_EQ(error_of("labels", LossKind::kMeanSquaredError), "");
  EXPECT_EQ(error_of("target", LossKind::kCrossEntropy), "");
}

}  // namespace
}  // namespace lowtide::autodiff
