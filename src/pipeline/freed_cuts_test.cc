// Which cuts come with the rewrite that frees their axis: those of a vocabulary, where rows cannot
// do the same.
#include "pipeline/freed_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "pipeline/step_moves.h"
#include "pipeline/testing/layers.h"
#include "support/graph_writer.h"

namespace lowtide::pipeline {
namespace {

using ir::ValueId;

// With so many layers samples are the largest class, with few of them the classes of the loss.
constexpr int kMany = 8, kFew = 1;

// Samples of rows through some layers, and logits of many classes for each row.
ir::Graph rows_of_classes(int64_t classes, int layers) {
  GraphWriter net;
  ValueId x = net.given("x", {4, 6, 8});
  for (int layer = 0; layer < layers; ++layer)
    x = net.op("Tanh", {net.op("MatMul", {x, net.given("v", {8, 8}, Category::kParameter)})});
  const ValueId w = net.given("w", {8, classes}, Category::kParameter);
  net.result(net.op("MatMul", {x, w}, {}, "logits"));
  return net.graph();
}

OptimizeOptions loss_options(bool ignores) {
  OptimizeOptions options = options_on_cpu();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kCrossEntropy;
  if (ignores) options.training->loss.ignore_index = -100;
  return options;
}

ir::Graph training_step_of(const ir::Graph& forward, const OptimizeOptions& options) {
  auto made = autodiff::make_training_graph(forward, *options.training);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return std::move(*made);
}

TEST(FreedCuts, AreOfLogitsWhoseRowsCannotBeCut) {
  const ir::Graph forward = rows_of_classes(64, kMany);
  const OptimizeOptions options = loss_options(/*ignores=*/true);
  const ir::Graph step = training_step_of(forward, options);
  const auto classes = freed_classes(step, options);
  ASSERT_TRUE(classes.has_value()) << classes.error().message;
  ASSERT_EQ(classes->size(), 2U);
  EXPECT_TRUE(classes->front().is_labelled()) << "samples, up to the log-sum-exp of each row";
  const FreedClass& vocabulary = classes->back();
  EXPECT_EQ(vocabulary.rewrite, "loss-by-classes");
  EXPECT_FALSE(vocabulary.is_labelled());
  for (const bool instead : {false, true}) {
    std::vector<std::string> said;
    for (const fission::CutRule& rule : vocabulary.cuts(instead)) said.push_back(print(rule));
    const std::string end = instead ? "!" : "";
    EXPECT_EQ(said, (std::vector<std::string>{"logits:n*:16" + end, "logits:n*:4" + end}));
  }
}

TEST(FreedCuts, AreNoneWhereTheyWouldBuyNothing) {
  const OptimizeOptions plain = loss_options(/*ignores=*/false), ignoring = loss_options(true);
  const auto count = [](const ir::Graph& step, const OptimizeOptions& options) {
    return freed_classes(step, options).value().size();
  };
  EXPECT_EQ(count(training_step_of(rows_of_classes(64, kMany), plain), plain), 0U)
      << "rows do it for less";
  const ir::Graph reached = training_step_of(rows_of_classes(64, kMany), plain);
  const auto anywhere = freed_classes(reached, plain, /*anywhere=*/true);
  ASSERT_EQ(anywhere->size(), 1U) << "unless nothing else keeps a budget";
  EXPECT_EQ(print(anywhere->front().cuts(true).front()), "logits:n*:16!");
  EXPECT_EQ(count(training_step_of(rows_of_classes(2, kMany), ignoring), ignoring), 0U)
      << "logits are small";
  OptimizeOptions without = ignoring;
  without.rewrites.without = {"loss-by-classes"};
  EXPECT_EQ(count(training_step_of(rows_of_classes(64, kMany), without), without), 0U);
  without.rewrites = {.with = {"loss-by-classes"}};
  EXPECT_EQ(count(training_step_of(rows_of_classes(64, kMany), without), without), 0U)
      << "it is there anyway";
}

// They are states of the label search, a rewrite and a cut in one.
TEST(FreedCuts, AreMovesWithTheirRewrite) {
  const ir::Graph forward = rows_of_classes(64, kMany);
  OptimizeOptions options = loss_options(/*ignores=*/true);
  const ir::Graph step = training_step_of(forward, options);
  const auto freed = [&] {
    std::vector<Candidate> found = step_moves(forward, step, options).value().moves;
    std::erase_if(found, [](const Candidate& move) {
      return std::find(move.rewrites.begin(), move.rewrites.end(), "loss-by-classes") ==
             move.rewrites.end();
    });
    return found;
  };
  ASSERT_FALSE(freed().empty());
  const StepMoves moves = step_moves(forward, step, options).value();
  for (const Candidate& move : freed()) {
    EXPECT_EQ(move.rewrites.size(), 1U);
    const auto made = moves.step(move);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const auto sums =
        std::count_if(made->graph.ops().begin(), made->graph.ops().end(),
                      [&](ir::OpId id) { return made->graph.op(id).kind == "ReduceLogSumExp"; });
    EXPECT_EQ(sums, move.cuts.empty() ? 1 : move.cuts.front().parts);
  }
  options.ideas.more_cuts = false;
  EXPECT_TRUE(freed().empty());
}

// Where the freed axis is of the largest class, labels cut it once the rewrite is there.
TEST(FreedCuts, OfTheLargestClassAreTheLabels) {
  const ir::Graph forward = rows_of_classes(64, kFew);
  const OptimizeOptions options = loss_options(/*ignores=*/true);
  const ir::Graph step = training_step_of(forward, options);
  const auto classes = freed_classes(step, options);
  ASSERT_TRUE(classes.has_value()) << classes.error().message;
  ASSERT_EQ(classes->size(), 1U);
  EXPECT_TRUE(classes->front().is_labelled());
  const StepMoves moves = step_moves(forward, step, options).value();
  const auto alone = std::find_if(moves.moves.begin(), moves.moves.end(), [](const Candidate& m) {
    return m.rewrites == std::vector<std::string>{"loss-by-classes"};
  });
  ASSERT_NE(alone, moves.moves.end());
  EXPECT_TRUE(alone->cuts.empty());
}

TEST(FreedCuts, AreNamedToWhoWantedThem) {
  const OptimizeOptions options = loss_options(/*ignores=*/false);
  const ir::Graph step = training_step_of(rows_of_classes(64, kMany), options);
  const std::vector<fission::CutRule> loss = {{.ops = "loss", .axis = "c", .parts = 4}};
  EXPECT_EQ(what_frees(step, loss, options),
            "; with --rewrite loss-by-classes 'loss/label_logits' can be");
  const std::vector<fission::CutRule> pattern = {{.ops = "logits", .axis = "n", .parts = 2},
                                                 {.ops = "l*ss", .axis = "c", .parts = 4}};
  EXPECT_EQ(what_frees(step, pattern, options),
            "; with --rewrite loss-by-classes 'loss/label_logits' can be");
  for (const char* axis : {"x", "a0"}) {
    const std::vector<fission::CutRule> other = {{.ops = "l*", .axis = axis, .parts = 4}};
    EXPECT_EQ(what_frees(step, other, options), "") << axis;
  }
  const OptimizeOptions ignoring = loss_options(/*ignores=*/true);
  const ir::Graph coupled = training_step_of(rows_of_classes(64, kMany), ignoring);
  const std::vector<fission::CutRule> rows = {{.ops = "loss", .axis = "a0", .parts = 4}};
  EXPECT_EQ(what_frees(coupled, rows, ignoring), "") << "rows that labels couple stay coupled";
}

// Samples of a norm in training are coupled by its statistics. In parts these become ops of their
// own; with cuts alone somebody has to ask for that.
TEST(FreedCuts, NormsOfSamplesAreNamedToWhoWantedToCutThem) {
  GraphWriter net;
  const ValueId x = net.given("x", {8, 4, 6, 6});
  net.result(net.op(
      "BatchNormTrain",
      {x, net.given("s", {4}, Category::kParameter), net.given("b", {4}, Category::kParameter)},
      {{"epsilon", 1e-3}}, "norm"));
  OptimizeOptions options;
  const std::vector<fission::CutRule> samples = {{.ops = "norm", .axis = "n", .parts = 4}};
  EXPECT_EQ(what_frees(net.graph(), samples, options),
            "; with --rewrite batch-norm-in-two-passes it can be");
  options.rewrites.without = {"batch-norm-in-two-passes"};
  EXPECT_EQ(what_frees(net.graph(), samples, options), "");
}

}  // namespace
}  // namespace lowtide::pipeline
