#include "pipeline/take_rewrites.h"

#include <gtest/gtest.h>

#include <string>

#include "pipeline/optimize.h"
#include "pipeline/testing/layers.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

constexpr int kLayers = 6;

// Layers that each make a mask of their own, which training keeps.
ir::Graph masked_layers() {
  ir::Graph graph;
  graph.name = "masked";
  ir::ValueId x = add_value(graph, "x", {32, 32}, Category::kInput);
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto w = add_value(graph, "w" + std::to_string(layer), {32, 32}, Category::kParameter);
    const auto ones =
        apply(graph, "Fill", {}, {{"shape", ir::Dims{32, 32}}, {"value", 1.0}, {"dtype", "f32"}});
    const auto mask = apply(graph, "Trilu", {ones}, {{"upper", int64_t{0}}, {"k", int64_t{0}}});
    x = apply(graph, "MatMul", {x, w, ir::ValueId::none(), ir::ValueId::none()}, {});
    x = apply(graph, "Tanh", {apply(graph, "Mul", {x, mask}, {})}, {});
  }
  graph.set_output(x, true);
  return graph;
}

OptimizeOptions options_of_rewrites() {
  OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  return options;
}

TEST(TakeRewrites, OneMaskForAllLayers) {
  OptimizeOptions options = options_of_rewrites();
  const auto with = optimize(masked_layers(), options);
  ASSERT_TRUE(with.has_value()) << with.error().message;
  options.rewrites.without = {"common-ops"};
  const auto without = optimize(masked_layers(), options);
  ASSERT_TRUE(without.has_value()) << without.error().message;
  ASSERT_EQ(with->rewrites.size(), 1U);
  EXPECT_EQ(with->rewrites[0].name, "common-ops");
  EXPECT_EQ(with->rewrites[0].ops, 2 * (kLayers - 1));
  EXPECT_LT(with->rewrites[0].peak_bytes, 0);
  EXPECT_LE(with->rewrites[0].seconds, 0);
  EXPECT_TRUE(without->rewrites.empty());
  EXPECT_EQ(with->plan.ops.size() + 2 * (kLayers - 1), without->plan.ops.size());
  const int64_t mask_bytes = int64_t{32} * 32 * 4;
  // Not all of them are there at the peak.
  EXPECT_LE(with->plan.arena_bytes + (kLayers - 3) * mask_bytes, without->plan.arena_bytes);
  EXPECT_TRUE(verify::verify(with->plan).ok());
}

TEST(TakeRewrites, AnUnknownNameIsAnErrorOfUse) {
  OptimizeOptions options = options_of_rewrites();
  options.rewrites.with = {"faster"};
  const auto made = optimize(masked_layers(), options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kUsage);
  EXPECT_TRUE(made.error().message.starts_with("--rewrite: there is no rewrite 'faster'"))
      << made.error().message;
}

TEST(TakeRewrites, WhatTwoStagesChangedIsAddedUp) {
  const OptimizeOptions options = options_of_rewrites();
  std::vector<RewriteWorth> worth = {{.name = "common-ops", .ops = 5, .peak_bytes = -7}};
  ir::Graph graph = masked_layers();
  graph.set_output(graph.outputs()[0], false);
  const auto pair = [&](std::string_view kind) {
    return apply(graph, kind, {*graph.find_value("x")}, {});
  };
  graph.set_output(apply(graph, "Add", {pair("Exp"), pair("Exp")}, {}), true);
  const size_t ops = graph.op_count();
  ASSERT_TRUE(take_rewrites(graph, rewrite::RewriteStage::kStep, options, worth).has_value());
  ASSERT_EQ(worth.size(), 1U);
  EXPECT_EQ(worth[0].ops, 6);
  EXPECT_EQ(graph.op_count(), ops - 1);
}

// The logits of 64 rows and 200 classes are eight times as large as the weights that make them.
TEST(TakeRewrites, ALargeLossIsWorthChunks) {
  OptimizeOptions options = options_of_rewrites();
  options.training->loss.kind = autodiff::LossKind::kCrossEntropy;
  ir::Graph graph;
  graph.name = "classes";
  const ir::ValueId x = add_value(graph, "x", {64, 8}, Category::kInput);
  const auto w = add_value(graph, "w", {8, 200}, Category::kParameter);
  const auto none = ir::ValueId::none();
  graph.set_output(apply(graph, "MatMul", {apply(graph, "Tanh", {x}), w, none, none}), true);
  const auto promising = promising_rewrites(graph, options);
  ASSERT_TRUE(promising.has_value()) << promising.error().message;
  EXPECT_EQ(*promising, std::vector<std::string>{"chunked-loss"});
  const auto without = optimize(graph, options);
  options.rewrites.with = {"chunked-loss"};
  const auto with = optimize(graph, options);
  ASSERT_TRUE(with.has_value()) << with.error().message;
  ASSERT_EQ(with->rewrites.size(), 1U);
  EXPECT_EQ(with->rewrites[0].name, "chunked-loss");
  EXPECT_LT(with->rewrites[0].peak_bytes, 0);
  EXPECT_LT(2 * with->plan.arena_bytes, without->plan.arena_bytes);
  EXPECT_TRUE(verify::verify(with->plan).ok());
}

// Two heads on an input of 512 channels, one of 1x1 and one of 3x3, with so many channels each.
ir::Graph heads(int64_t channels) {
  ir::Graph graph;
  graph.name = "heads";
  const ir::ValueId x = add_value(graph, "x", {256, 512, 14, 14}, Category::kInput);
  std::vector<ir::ValueId> results;
  for (const int64_t k : {1, 3}) {
    const ir::ValueId w =
        add_value(graph, "w" + std::to_string(k), {channels, 512, k, k}, Category::kParameter);
    const int64_t half = (k - 1) / 2;
    results.push_back(apply(graph, "Conv", {x, w, ir::ValueId::none()},
                            {{"pads", ir::Dims{half, half, half, half}}}));
  }
  graph.set_output(apply(graph, "Tanh", {apply(graph, "Add", results, {})}, {}), true);
  return graph;
}

// Narrow heads take as long as reading the input takes, and one kernel reads it once; of wide ones
// nine times the operations are more.
TEST(TakeRewrites, NarrowHeadsOfAWideInputAreOneKernel) {
  OptimizeOptions options = options_of_rewrites();
  options.device = cost::find_device("rtx3090").value();
  const auto without = optimize(heads(4), options);
  ASSERT_TRUE(without.has_value()) << without.error().message;
  options.rewrites.with = {"enlarge-kernels"};
  const auto narrow = optimize(heads(4), options), wide = optimize(heads(64), options);
  ASSERT_TRUE(narrow.has_value()) << narrow.error().message;
  ASSERT_TRUE(wide.has_value()) << wide.error().message;
  for (const RewriteWorth& worth : wide->rewrites) EXPECT_NE(worth.name, "enlarge-kernels");
  ASSERT_FALSE(narrow->rewrites.empty());
  EXPECT_EQ(narrow->rewrites[0].name, "enlarge-kernels");
  EXPECT_EQ(narrow->rewrites[0].ops, 2);
  EXPECT_LT(narrow->rewrites[0].seconds, 0);
  EXPECT_TRUE(verify::verify(narrow->plan).ok());
  const auto seconds = [](const Optimized& made) {
    double sum = 0;
    for (const plan::PlanOp& op : made.plan.ops) sum += op.predicted_seconds;
    return sum;
  };
  EXPECT_LT(seconds(*narrow), .7 * seconds(*without));  // .317 of .509 ms
}

}  // namespace
}  // namespace lowtide::pipeline
