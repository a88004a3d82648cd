// A long sequence in blocks of queries: the fewest that fit, in a plan that is verified; and steps
// that are none.
#include "pipeline/sequence_blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost/device.h"
#include "fission/labels.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "verify/verify.h"

namespace lowtide::pipeline::sequence_blocks_test {
namespace {

using ir::ValueId;

constexpr int64_t kWidth = 8;

ValueId mask(GraphWriter& net, int64_t rows) {
  const ir::Attrs fill = {
      {"shape", ir::Dims{rows, rows}}, {"value", -1e30}, {"dtype", std::string("f32")}};
  return net.op("Trilu", {net.op("Fill", {}, fill)}, {{"upper", int64_t{1}}, {"k", int64_t{1}}});
}

// Samples of attention of one head and a head for so many words.
ir::Graph network(int64_t samples, int64_t rows, int64_t words, bool is_causal = true) {
  GraphWriter net;
  const auto weight = [&](const std::string& name, int64_t out) {
    return net.given(name, {kWidth, out}, Category::kParameter);
  };
  const ValueId x = net.op("Tanh", {net.given("x", {samples, rows, kWidth})});
  const ValueId q = net.op("MatMul", {x, weight("q", kWidth)});
  const ValueId k = net.op("MatMul", {x, weight("k", kWidth)});
  const ValueId v = net.op("MatMul", {x, weight("v", kWidth)});
  ValueId mixed = net.op("MatMul", {q, k}, {{"trans_b", int64_t{1}}});
  if (is_causal) mixed = net.op("Add", {mixed, mask(net, rows)});
  mixed = net.op("MatMul", {net.op("Softmax", {mixed}, {{"axis", int64_t{2}}}), v});
  mixed = net.op("Tanh", {net.op("Add", {x, mixed})});
  net.result(net.op("MatMul", {mixed, weight("head", words)}));
  return net.graph();
}

OptimizeOptions within(int64_t budget) {
  OptimizeOptions options;
  options.device = cost::find_device("h100").value();
  options.training.emplace();
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.training->optimizer.momentum = 0;
  options.budget_bytes = budget;
  options.schedule.remat.limits.max_units = 500'000;
  return options;
}

InBlocks made(const ir::Graph& graph, const OptimizeOptions& options, int64_t least = 1) {
  const auto result = plan_in_blocks(graph, options, least);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(InBlocks{});
}

void expect_within(const Optimized& made, int64_t budget) {
  EXPECT_LE(made.plan.arena_bytes, budget);
  const verify::Report report = verify::verify(made.plan);
  EXPECT_TRUE(report.ok()) << report.findings.front().message;
}

constexpr int64_t kRows = 256;
constexpr int64_t kScores = kRows * kRows * 4;

TEST(SequenceBlocks, AreNoneWhereTheWholeStepFits) {
  const InBlocks whole = made(network(1, kRows, 16), within(int64_t{1} << 30));
  ASSERT_TRUE(whole.made.has_value());
  EXPECT_EQ(whole.made->query_blocks, 1);
  EXPECT_TRUE(whole.made->split.whole());
}

TEST(SequenceBlocks, AreTheFewestThatFit) {
  const ir::Graph graph = network(1, kRows, 16);
  const InBlocks blocks = made(graph, within(kScores));
  EXPECT_TRUE(blocks.is_sequence);
  ASSERT_TRUE(blocks.made.has_value());
  expect_within(*blocks.made, kScores);
  const int64_t count = blocks.made->query_blocks;
  EXPECT_GT(count, 2);
  EXPECT_TRUE(blocks.made->split.whole()) << "nothing else is as large";
  OptimizeOptions fewer = within(kScores);
  fewer.query_blocks = count / 2;
  EXPECT_FALSE(made(graph, fewer).made.has_value());
  EXPECT_EQ(made(graph, within(kScores), 2 * count).made->query_blocks, 2 * count);
}

TEST(SequenceBlocks, CutALargeHeadWithItsLossIntoAsManyParts) {
  const ir::Graph graph = network(1, kRows, 4 * kRows);  // 4 times the bytes of scores
  const InBlocks blocks = made(graph, within(kScores));
  ASSERT_TRUE(blocks.made.has_value());
  expect_within(*blocks.made, kScores);
  const fission::Labels& split = blocks.made->split;
  EXPECT_EQ(split.parts, 1);
  ASSERT_EQ(split.nests.size(), 1U) << fission::print(split);
  EXPECT_EQ(split.nests[0].parts, blocks.made->query_blocks);
  EXPECT_GT(blocks.made->ops_in_parts, 0);
}

// Its samples are what a search for labels cuts.
TEST(SequenceBlocks, AreNotForManySamples) {
  const InBlocks many = made(network(8, kRows, 16, /*is_causal=*/false), within(kScores));
  EXPECT_FALSE(many.is_sequence);
  EXPECT_FALSE(many.made.has_value());
}

// As many samples as queries: sizes do not tell the one from the other.
TEST(SequenceBlocks, AreNotForAsManySamplesAsQueries) {
  constexpr int64_t kAlike = 64;
  const ir::Graph graph = network(kAlike, kAlike, 16, /*is_causal=*/false);
  EXPECT_FALSE(made(graph, within(kAlike * kAlike * kAlike * 4)).is_sequence);
}

TEST(SequenceBlocks, AreNoneWhereTheyAreForbiddenOrNothingFits) {
  const ir::Graph graph = network(1, kRows, 16);
  OptimizeOptions forbidden = within(kScores);
  forbidden.rewrites.without = {"query-blocks"};
  EXPECT_FALSE(made(graph, forbidden).is_sequence);
  const InBlocks none = made(graph, within(kScores / 64));
  EXPECT_TRUE(none.is_sequence);
  EXPECT_FALSE(none.made.has_value());
}

}  // namespace
}  // namespace lowtide::pipeline::sequence_blocks_test
