// Steps that share the passes which they begin with (pipeline/take_rewrites.h): whatever was asked
// before, each is what the passes make of the forward graph one after another.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "ir/graph_text.h"
#include "pipeline/optimize.h"
#include "pipeline/take_rewrites.h"
#include "support/step_families.h"

namespace lowtide::steps_to_cut_test {
namespace {

using pipeline::OptimizeOptions;

// With those rewrites that run where a step is in parts, as step_to_cut says.
Result<std::string> passes_in_turn(ir::Graph graph, OptimizeOptions options) {
  options.split = {.parts = 0};
  std::vector<pipeline::RewriteWorth> worth;
  LT_RETURN_IF_ERROR(take_rewrites(graph, rewrite::RewriteStage::kForward, options, worth));
  ir::Graph step = graph;
  if (options.training) {
    LT_ASSIGN(step, autodiff::make_training_graph(graph, *options.training));
  }
  LT_RETURN_IF_ERROR(take_rewrites(step, rewrite::RewriteStage::kStep, options, worth));
  return ir::print(step);
}

// Some rewrites that do not run by themselves, some that do and must not, and blocks of queries.
void draw_choice(Rng& rng, const std::vector<std::string>& open, OptimizeOptions& options) {
  options.rewrites = {};
  for (const std::string& name : open)
    if (rng.below(4) == 0) options.rewrites.with.push_back(name);
  for (const char* name : {"slices", "common-ops", "batch-norm-in-two-passes"})
    if (rng.below(4) == 0) options.rewrites.without.emplace_back(name);
  options.query_blocks = int64_t{1} << rng.below(3);
  options.cuts.clear();
  if (rng.below(2) == 0) options.cuts.push_back({.ops = "*", .axis = "n", .parts = 2});
}

TEST(StepsToCut, AreWhatThePassesMakeInTurn) {
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Rng rng(seed);
    DrawnNetwork network(rng);
    const ir::Graph forward = seed % 2 == 0 ? network.text() : network.unet();
    OptimizeOptions options;
    if (seed % 4 != 3) {
      options.training.emplace();
      options.training->loss.kind = autodiff::LossKind::kCrossEntropy;
    }
    const std::vector<std::string> open = pipeline::open_rewrites(options);
    ASSERT_FALSE(open.empty());
    pipeline::StepsToCut steps(forward);
    for (int asked = 0; asked < 16; ++asked) {
      draw_choice(rng, open, options);
      const auto step = steps.step(options);
      const auto in_turn = passes_in_turn(forward, options);
      ASSERT_TRUE(step.has_value()) << step.error().message;
      ASSERT_TRUE(in_turn.has_value()) << in_turn.error().message;
      EXPECT_EQ(ir::print(*step), *in_turn) << "seed " << seed << ", step " << asked;
      different.insert(*in_turn);
    }
  }
  EXPECT_GT(different.size(), 24U);
}

TEST(StepsToCut, ANameThatIsNoRewriteIsAnErrorEachTime) {
  Rng rng(1);
  const ir::Graph forward = DrawnNetwork(rng).text();
  pipeline::StepsToCut steps(forward);
  OptimizeOptions options;
  options.training.emplace();
  for (int again = 0; again < 2; ++again) {
    options.rewrites = {};
    EXPECT_TRUE(steps.step(options).has_value());
    options.rewrites.with = {"faster"};
    const auto step = steps.step(options);
    ASSERT_FALSE(step.has_value());
    EXPECT_EQ(step.error().code, ErrorCode::kUsage);
  }
}

}  // namespace
}  // namespace lowtide::steps_to_cut_test
