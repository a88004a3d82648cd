// Moves of the label search: blocks of queries, cuts along a second axis and rewrites are states
// beside labels. Where one makes the step fastest it is found, planned, verified and run with the
// whole step's results.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "exec/cpu/cpu.h"
#include "fission/labels.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/try_splits.h"
#include "support/graph_writer.h"
#include "support/run_against_reference.h"
#include "support/split_plans.h"
#include "verify/verify.h"

namespace lowtide {
namespace {

using ir::ValueId;

constexpr int64_t kSamples = 6;

// Parts launch kernels for nothing: small ops are worth a cut.
pipeline::OptimizeOptions quick_options(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options = options_with(kernels);
  options.find_smallest = false;
  options.device.launch_seconds = 0;
  spend_little(options);
  return options;
}

// The best state of all has what `is_moved` says, and the best without is what a search without
// moves finds.
void expect_moves_are_states(const ir::Graph& graph, const pipeline::OptimizeOptions& options,
                             bool (*is_moved)(const pipeline::Candidate&)) {
  const ir::Graph step = pipeline::step_to_cut(graph, options).value();
  pipeline::LabelSearchCounts counts;
  const auto all = pipeline::label_candidates(step, options, {}, pipeline::kAnyTime,
                                              pipeline::step_moves(graph, step, options), &counts);
  const auto alone = pipeline::label_candidates(step, options);
  ASSERT_TRUE(all.has_value() && alone.has_value());
  EXPECT_GT(counts.forecast, 0);
  EXPECT_GE(static_cast<size_t>(counts.judged), all->size());
  const pipeline::Candidate& best = all->front();
  EXPECT_TRUE(best.fits && is_moved(best)) << fission::print(best.labels);
  const auto plain = std::find_if(all->begin(), all->end(),
                                  [](const auto& candidate) { return !candidate.has_moves(); });
  ASSERT_NE(plain, all->end());
  EXPECT_TRUE(plain->cuts_as(alone->front()));
  EXPECT_EQ(plain->fits, alone->front().fits);
  EXPECT_EQ(plain->starts, alone->front().starts);
  if (plain->fits) {
    EXPECT_LT(best.seconds, plain->seconds);
  }
}

// One sequence: no samples to cut, and scores of all queries and keys are most of the memory.
TEST(LabelMoves, CutsAttentionIntoBlocksOfQueriesWhereThatHelps) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  constexpr int64_t kRows = 64, kWide = 4;
  GraphWriter net;
  ValueId x = net.given("x", {kRows, kWide});
  const auto projected = [&](ValueId from) {
    return net.op("MatMul", {from, net.given("w", {kWide, kWide}, Category::kParameter)});
  };
  const ir::Attrs fill = {
      {"shape", ir::Dims{kRows, kRows}}, {"value", -1e30}, {"dtype", std::string("f32")}};
  const ValueId mask =
      net.op("Trilu", {net.op("Fill", {}, fill)}, {{"upper", int64_t{1}}, {"k", int64_t{1}}});
  for (int layer = 0; layer < 2; ++layer) {
    ValueId scores = net.op("MatMul", {projected(x), projected(x)}, {{"trans_b", int64_t{1}}});
    scores = net.op("Softmax", {net.op("Add", {scores, mask})}, {{"axis", int64_t{1}}});
    x = net.op("Tanh", {net.op("MatMul", {scores, projected(x)})});
  }
  net.result(x);
  const ir::Graph graph = net.graph();
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  options.budget_bytes = free->plan.arena_bytes / 2;
  options.split = {.parts = 0};
  const auto any = pipeline::optimize(graph, options);
  ASSERT_TRUE(any.has_value()) << any.error().message;
  EXPECT_LE(any->plan.arena_bytes, *options.budget_bytes);
  EXPECT_GT(any->query_blocks, 1);
  expect_moves_are_states(graph, options, [](const auto& best) { return best.query_blocks > 1; });
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  expect_right_results(any->plan, step, *kernels);
  // In one block it takes longer, if there is a plan at all.
  const auto candidates = pipeline::label_candidates(step, options);
  ASSERT_TRUE(candidates.has_value() && !candidates->empty());
  options.split = candidates->front().labels;
  const auto in_one = pipeline::optimize(graph, options);
  const double seconds = in_one ? in_one->plan.claims.predicted_seconds : pipeline::kAnyTime;
  EXPECT_GT(seconds, any->plan.claims.predicted_seconds);
}

// Two samples of attention, whose scores are most of the memory. Two parts of samples are all there
// are, so heads are cut, too, within them; and not where the user does without.
TEST(LabelMoves, CutsASecondAxisWhereTheFirstIsShort) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  options.rewrites.without = {"query-blocks"};
  constexpr int64_t kHeads = 4, kRows = 32, kWide = 4;
  GraphWriter net;
  ValueId x = net.given("x", {2, kHeads, kRows, kWide});
  const auto projected = [&](ValueId from) {
    return net.op("MatMul", {from, net.given("w", {kWide, kWide}, Category::kParameter)});
  };
  for (int layer = 0; layer < 2; ++layer) {
    ValueId scores = net.op("MatMul", {projected(x), projected(x)}, {{"trans_b", int64_t{1}}});
    scores = net.op("Softmax", {net.op("Tanh", {scores})}, {{"axis", int64_t{3}}});
    // What couples the heads: without it they are cut like samples.
    const ValueId made = net.op("MatMul", {scores, projected(x)});
    const ValueId sum =
        net.op("ReduceSum", {made}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{1}}});
    x = net.op("Add", {x, sum});
  }
  net.result(x);
  const ir::Graph graph = net.graph();
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  options.budget_bytes = free->plan.arena_bytes * 35 / 100;
  options.split = {.parts = 0};
  expect_moves_are_states(
      graph, options, [](const auto& best) { return !best.labels.whole() && !best.cuts.empty(); });
  const auto any = pipeline::optimize(graph, options);
  ASSERT_TRUE(any.has_value()) << any.error().message;
  EXPECT_FALSE(any->split.whole() || any->cuts.empty()) << fission::print(any->split);
  EXPECT_LE(any->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(any->plan).ok());
  expect_right_results(any->plan, step, *kernels);
  const auto count_cuts = [&] {
    const pipeline::StepMoves moves = pipeline::step_moves(graph, step, options);
    return std::count_if(moves.moves.begin(), moves.moves.end(),
                         [](const pipeline::Candidate& move) { return !move.cuts.empty(); });
  };
  EXPECT_GT(count_cuts(), 0);
  options.cuts = any->cuts;  // the user's own
  EXPECT_EQ(count_cuts(), 0);
  options.cuts.clear();
  options.ideas.more_cuts = false;
  EXPECT_EQ(count_cuts(), 0);
}

// A rewrite that nobody asked for is found where the budget leaves its plan the fastest, and not
// where it is refused.
TEST(LabelMoves, TakesRewritesThatMakeThePlanFaster) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  GraphWriter net;
  const ir::Dims images{kSamples, 4, 16, 16};
  ValueId x = net.given("x", images);
  for (int layer = 0; layer < 4; ++layer) {
    x = net.op("Conv", {x, net.given("w", {4, 4, 3, 3}, Category::kParameter)},
               {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}});
    const ValueId one = net.given("g", images), other = net.given("h", images);
    x = net.op("Tanh", {net.op("Add", {net.op("Mul", {x, one}), net.op("Mul", {x, other})})});
  }
  net.result(x);
  const ir::Graph graph = net.graph();
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  options.budget_bytes = free->plan.arena_bytes * 8 / 10;
  options.split = {.parts = 0};
  const auto any = pipeline::optimize(graph, options);
  ASSERT_TRUE(any.has_value()) << any.error().message;
  EXPECT_EQ(any->asked_rewrites, std::vector<std::string>{"reassociate"});
  EXPECT_LE(any->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(any->plan).ok());
  expect_right_results(any->plan, step, *kernels);
  expect_moves_are_states(graph, options, [](const auto& best) {
    return best.rewrites == std::vector<std::string>{"reassociate"};
  });
  options.rewrites.without = {"reassociate"};
  const auto refused = pipeline::optimize(graph, options);
  ASSERT_TRUE(refused.has_value()) << refused.error().message;
  EXPECT_TRUE(refused->asked_rewrites.empty());
  EXPECT_LT(any->plan.claims.predicted_seconds, refused->plan.claims.predicted_seconds);
}

}  // namespace
}  // namespace lowtide
