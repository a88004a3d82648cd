// Attention in blocks beside the attention it came from, on the reference executor in double: the
// results, and all gradients of a training step.
#include "rewrite/query_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "rewrite/slice_concat.h"
#include "support/graph_writer.h"
#include "support/same_results.h"

namespace lowtide::rewrite::query_blocks_test {
namespace {

using ir::OpId;
using ir::ValueId;

constexpr int64_t kSequence = 7, kWidth = 4;

struct Form {
  std::string name;
  double masked = -1e30;  // 0: no mask
  int64_t diagonal = 1;   // of the mask
  bool has_bias = false;  // by head and key
  bool has_dropout = false;
  bool keys_are_rows = false;  // K as it is, not transposed
  bool groups = false;         // heads share keys and values
  int64_t keys = kSequence;
};

// Projections before, so that Q, K and V have gradients; another use of the scores' mask behind.
struct Attentive : GraphWriter {
  explicit Attentive(const Form& form) {
    const ir::Dims heads = form.groups ? ir::Dims{2, 3} : ir::Dims{3};
    const ir::Dims few = form.groups ? ir::Dims{2, 1} : ir::Dims{3};
    const ValueId q = projected("q", with(heads, kSequence, kWidth));
    const ValueId v = projected("v", with(few, form.keys, kWidth));
    const ValueId k = projected(
        "k", form.keys_are_rows ? with(few, form.keys, kWidth) : with(few, kWidth, form.keys));
    const ir::Attrs turned = {{"trans_b", int64_t{1}}};
    ValueId x = op("MatMul", {q, k}, form.keys_are_rows ? turned : ir::Attrs{});
    x = op("AffineScalar", {x}, {{"scale", 0.5}, {"shift", 0.0}});
    if (form.has_bias) x = op("Add", {given("bias", {1, form.keys}, Category::kParameter), x});
    if (form.masked != 0) {
      const ir::Attrs fill = {{"shape", ir::Dims{kSequence, form.keys}},
                              {"value", form.masked},
                              {"dtype", std::string("f32")}};
      mask = op("Trilu", {op("Fill", {}, fill)}, {{"upper", int64_t{1}}, {"k", form.diagonal}});
      x = op("Add", {x, mask});
    }
    const auto last = static_cast<int64_t>(graph_.value(x).dims.size()) - 1;
    x = softmax = op("Softmax", {x}, {{"axis", last}});
    if (form.has_dropout) x = op("Dropout", {x}, {{"ratio", 0.3}, {"stream", int64_t{5}}});
    result(op("Tanh", {op("MatMul", {x, v})}));
  }
  static ir::Dims with(ir::Dims dims, int64_t rows, int64_t columns) {
    dims.emplace_back(rows);
    dims.emplace_back(columns);
    return dims;
  }
  ValueId projected(const std::string& name, const ir::Dims& dims) {
    return op("Sin", {given(name, dims, Category::kParameter)});
  }
  ValueId mask, softmax;
};

ir::Graph step_of(const ir::Graph& forward) {
  autodiff::TrainingOptions options;
  options.loss.kind = autodiff::LossKind::kModelOutput;
  options.optimizer.kind = autodiff::OptimizerKind::kSgd;
  const auto step = autodiff::make_training_graph(forward, options);
  EXPECT_TRUE(step.has_value()) << step.error().message;
  return *step;
}

int64_t slices_of_slices(const ir::Graph& graph) {
  int64_t found = 0;
  for (const OpId id : graph.ops()) {
    if (graph.op(id).kind != "Slice") continue;
    const OpId maker = graph.value(graph.op(id).inputs[0]).producer;
    found += maker.valid() && graph.op(maker).kind == "Slice" ? 1 : 0;
  }
  return found;
}

class QueryBlocks : public ::testing::TestWithParam<Form> {};

TEST_P(QueryBlocks, ComputeTheSameAndTheSameGradients) {
  const Form& form = GetParam();
  const ir::Graph graph = Attentive(form).with_one_result();
  const bool is_causal = form.masked <= -1e9 && form.diagonal == 1 && form.keys == kSequence;
  for (const int64_t blocks : {2, 3, 7, 100}) {
    SCOPED_TRACE(blocks);
    const auto made = attention_in_blocks(graph, blocks);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->attentions, 1);
    EXPECT_EQ(made->causal, is_causal ? 1 : 0);
    EXPECT_EQ(ops_called(made->graph, "Softmax"), std::min(blocks, kSequence));
    EXPECT_EQ(ops_called(made->graph, "MatMul"), 2 * std::min(blocks, kSequence));
    expect_same_results(graph, made->graph);
    expect_same_results(step_of(graph), step_of(made->graph));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, QueryBlocks,
    ::testing::Values(Form{.name = "Causal"}, Form{.name = "Plain", .masked = 0},
                      Form{.name = "Lowest", .masked = std::numeric_limits<float>::lowest()},
                      Form{.name = "AFiniteBiasIsNoMask", .masked = -3},
                      Form{.name = "DiagonalMasked", .diagonal = 2},
                      Form{.name = "Biased", .has_bias = true},
                      Form{.name = "Random", .has_dropout = true},
                      Form{.name = "KeysAreRows", .keys_are_rows = true},
                      Form{.name = "GroupsOfHeads", .groups = true},
                      Form{.name = "OtherKeys", .masked = 0, .keys = 5},
                      Form{.name = "MaskOfOtherKeys", .keys = 5}),
    [](const auto& form) { return form.param.name; });

// A causal block of rows [a, b) has b keys, so scores are half as many in the limit.
TEST(QueryBlocksOfCausal, HaveTheKeysUpToTheirLastRow) {
  const auto made = attention_in_blocks(Attentive(Form{}).graph(), 3);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  std::vector<ir::Dims> found;
  for (const OpId id : made->graph.ops())
    if (made->graph.op(id).kind == "Softmax")
      found.push_back(made->graph.value(made->graph.op(id).outputs[0]).dims);
  std::sort(found.begin(), found.end(), [](const ir::Dims& a, const ir::Dims& b) {
    return *a[2].constant() < *b[2].constant();
  });
  EXPECT_EQ(found, (std::vector<ir::Dims>{{3, 3, 3}, {3, 2, 5}, {3, 2, 7}}));
}

// The gradient of keys grows block by block: each padding is to the size of the next block.
TEST(QueryBlocksOfCausal, PadGradientsToTheNextBlockOnly) {
  const auto made = attention_in_blocks(Attentive(Form{}).with_one_result(), 7);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const ir::Graph step = step_of(made->graph);
  int64_t rows = 0, pads = 0;
  for (const OpId id : step.ops()) {
    if (step.op(id).kind != "Pad") continue;
    ++pads;
    const ir::Dims& from = step.value(step.op(id).inputs[0]).dims;
    const ir::Dims& to = step.value(step.op(id).outputs[0]).dims;
    for (size_t d = 0; d < to.size(); ++d) rows += *to[d].constant() - *from[d].constant();
  }
  EXPECT_EQ(pads, 2 * (kSequence - 1)) << "of keys and of values";
  EXPECT_EQ(rows, pads) << "one row each";
}

// Keys of all blocks are cut from all keys then, so that each can be made again by itself; the
// gradients still grow block by block, in as many paddings.
TEST(QueryBlocksOfCausal, CutKeysFromTheWholeOnceThereAreGradients) {
  const auto made = attention_in_blocks(Attentive(Form{}).with_one_result(), 7);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const ir::Graph step = step_of(made->graph);
  const auto direct = apply_rules(step, direct_slice_rules());
  ASSERT_TRUE(direct.has_value()) << direct.error().message;
  EXPECT_EQ(slices_of_slices(step), 2 * (kSequence - 2)) << "of keys and of values";
  EXPECT_EQ(slices_of_slices(direct->graph), 0);
  EXPECT_EQ(direct->graph.op_count(), step.op_count());
  EXPECT_EQ(ops_called(direct->graph, "Pad"), ops_called(step, "Pad"));
  expect_same_results(step, direct->graph);
}

TEST(QueryBlocksAreNotMadeOf, ScoresThatOthersRead) {
  Attentive net{Form{}};
  net.result(net.softmax);
  const auto made = attention_in_blocks(net.graph(), 4);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->ops, 0);
  EXPECT_EQ(made->attentions, 0);
  EXPECT_TRUE(made->graph == net.graph());
}

TEST(QueryBlocksAreNotMadeOf, ProductsWithoutASoftmax) {
  GraphWriter net;
  const ValueId a = net.given("a", {6, 6}), b = net.given("b", {6, 6});
  net.result(net.op(
      "MatMul",
      {net.op("AffineScalar", {net.op("MatMul", {a, b})}, {{"scale", 2.0}, {"shift", 0.0}}), b}));
  const auto made = attention_in_blocks(net.graph(), 2);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->ops, 0);
}

}  // namespace
}  // namespace lowtide::rewrite::query_blocks_test
