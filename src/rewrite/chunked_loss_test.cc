#include "rewrite/chunked_loss.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/graph_writer.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

constexpr int64_t kWidth = 4, kClasses = 24;

// What leads to a loss, the loss, and its gradients.
struct Head : GraphWriter {
  explicit Head(ir::Dims rows, int64_t width = kWidth, int64_t classes = kClasses,
                ir::Attrs attrs = {}) {
    ir::Dims dims = rows;
    dims.emplace_back(width);
    hidden = op("Tanh", {given("x", dims)});
    weights = given("w", {width, classes}, Category::kParameter);
    logits = op("MatMul", {hidden, weights});
    attrs["axis"] = static_cast<int64_t>(rows.size());
    const auto made =
        ops::append(graph_, "CrossEntropy", {logits, labels(rows)}, attrs, {.name = "loss"});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    const std::vector<ValueId> loss = graph_.op(*made).outputs;
    result(loss[0]);
    attrs["scale"] = 1.0;
    const ValueId back =
        op("CrossEntropyGrad", {logits, graph_.op(*made).inputs[1], loss[1]}, attrs);
    result(op("TanhGrad", {op("MatMul", {back, weights}, {{"trans_b", int64_t{1}}}), hidden}));
    if (rows.size() == 1) result(op("MatMul", {hidden, back}, {{"trans_a", int64_t{1}}}));
  }
  ValueId labels(const ir::Dims& rows) {
    ir::Value value;
    value.name = "labels";
    value.dims = rows;
    value.dtype = DType::kI64;
    value.category = Category::kInput;
    return graph_.add_value(std::move(value));
  }
  ValueId hidden, weights, logits;
};

int64_t largest_of(const ir::Graph& graph, std::string_view kind) {
  int64_t most = 0;
  for (const ir::OpId id : graph.ops())
    if (graph.op(id).kind == kind)
      most = std::max(most,
                      ir::element_count(graph.value(graph.op(id).outputs[0])).constant().value());
  return most;
}

int64_t ops_changed(const ir::Graph& graph) {
  const auto made = loss_in_chunks(graph);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? made->ops : -1;
}

TEST(ChunkedLoss, NoChunkOfLogitsIsLargerThanTheWeights) {
  for (const int64_t rows : {5, 11, 16}) {
    SCOPED_TRACE(rows);
    const ir::Graph graph = Head({rows}).graph();
    const auto made = loss_in_chunks(graph);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->ops, 5) << "products, loss and gradient; not what is before them";
    ASSERT_TRUE(ir::check(made->graph).has_value());
    const int64_t chunks = (rows + kWidth - 1) / kWidth;
    EXPECT_EQ(ops_called(made->graph, "CrossEntropy"), chunks);
    EXPECT_EQ(ops_called(made->graph, "CrossEntropyGrad"), chunks);
    EXPECT_EQ(ops_called(made->graph, "Tanh"), 1);
    EXPECT_EQ(ops_called(made->graph, "TanhGrad"), 1);
    EXPECT_LE(largest_of(made->graph, "CrossEntropyGrad"), kWidth * kClasses);
    expect_same_results(graph, made->graph);
    EXPECT_EQ(ops_changed(made->graph), 0) << "a second time";
  }
}

// Of few samples the rows of their sequences are cut.
TEST(ChunkedLoss, OfFewSamplesCutsTheSequence) {
  const ir::Graph graph = Head({2, 24}).graph();
  const auto made = loss_in_chunks(graph);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(ops_called(made->graph, "CrossEntropy"), 12);
  expect_same_results(graph, made->graph);
}

// Where labels may be ignored those that are not are counted first, once.
TEST(ChunkedLoss, DividesByTheLabelsOfAllRows) {
  const ir::Graph graph = Head({16}, kWidth, kClasses, {{"ignore_index", int64_t{1}}}).graph();
  const auto made = loss_in_chunks(graph);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(ops_called(made->graph, "CrossEntropy"), 4);
  EXPECT_EQ(ops_called(made->graph, "LabelCount"), 1);
  EXPECT_LE(largest_of(made->graph, "CrossEntropyGrad"), kWidth * kClasses);
  expect_same_results(graph, made->graph);
}

TEST(ChunkedLoss, LeavesWhatGainsNothing) {
  EXPECT_EQ(ops_changed(Head({kWidth}).graph()), 0) << "no more rows than the weights have";
  EXPECT_EQ(ops_changed(Head({16}, 8, 6).graph()), 0) << "logits smaller than the hidden values";
  EXPECT_EQ(ops_changed(Head({16}, 6, 6).graph()), 0) << "logits as large as these: a layer";
  GraphWriter none;
  none.result(none.op("Tanh", {none.given("x", {64, 64})}));
  EXPECT_EQ(ops_changed(none.graph()), 0);
}

}  // namespace
}  // namespace lowtide::rewrite
