// Moves of the label search: blocks of queries, cuts along a second axis and rewrites are states
// beside labels. Where one makes the step fastest it is found, planned, verified and run with the
// whole step's results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "exec/cpu/cpu.h"
#include "fission/labels.h"
#include "pipeline/label_judge.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"
#include "support/coupled_heads.h"
#include "support/graph_writer.h"
#include "support/run_against_reference.h"
#include "support/split_plans.h"
#include "verify/verify.h"

namespace lowtide::label_moves_test {
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
  const auto all =
      pipeline::label_candidates(step, options, {}, pipeline::kAnyTime,
                                 pipeline::step_moves(graph, step, options).value(), &counts);
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
  ValueId scores = net.op("MatMul", {projected(x), projected(x)}, {{"trans_b", int64_t{1}}});
  scores = net.op("Softmax", {net.op("Add", {scores, mask})}, {{"axis", int64_t{1}}});
  x = net.op("Tanh", {net.op("MatMul", {scores, projected(x)})});
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
  const ir::Graph graph = coupled_heads(2, /*layers=*/1);
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
    const pipeline::StepMoves moves = pipeline::step_moves(graph, step, options).value();
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

// Labels below the limit.
ValueId words_of(ir::Graph& graph, ir::Dims dims, int64_t limit) {
  ir::Value value;
  value.name = "words";
  value.dtype = DType::kI64;
  value.category = Category::kInput;
  int64_t count = 1;
  for (const sym::Expr& dim : dims) count *= *dim.constant();
  value.dims = std::move(dims);
  value.initial.kind = ir::InitialValue::Kind::kInline;
  value.initial.bytes.resize(static_cast<size_t>(count) * sizeof(int64_t));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t word = 5 * k % limit;
    std::memcpy(value.initial.bytes.data() + k * sizeof(int64_t), &word, sizeof(int64_t));
  }
  return graph.add_value(std::move(value));
}

// Logits of words and their loss behind four layers; labels may be ignored.
ir::Graph words_after_layers(int64_t rows, int64_t words) {
  GraphWriter net;
  ValueId x = net.given("x", {2, rows, 16});
  for (int layer = 0; layer < 4; ++layer)
    x = net.op("Tanh", {net.op("MatMul", {x, net.given("v", {16, 16}, Category::kParameter)})});
  const ValueId w = net.given("w", {words, 16}, Category::kParameter);
  x = net.op("MatMul", {x, net.op("Transpose", {w}, {{"perm", ir::Dims{1, 0}}})}, {}, "logits");
  net.result(net.op("CrossEntropy", {x, words_of(net.graph(), {2, rows}, words)},
                    {{"axis", int64_t{2}}, {"ignore_index", int64_t{7}}}, "loss"));
  return net.graph();
}

bool has_cut_of(const pipeline::Optimized& made, const std::string& op) {
  return std::any_of(made.cuts.begin(), made.cuts.end(),
                     [&](const fission::CutRule& cut) { return cut.ops == op; });
}

// Logits of many words, of labels that may be ignored and are not counted first: no part of the
// rows has a gradient of its own, so a loss that is taken apart and cut along its words keeps a
// budget that nothing else does, or keeps it faster.
TEST(LabelMoves, CutsWordsWhereRowsCannotBeCut) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  options.training->loss.kind = autodiff::LossKind::kModelOutput;
  options.rewrites.without = {"count-labels-first"};
  const ir::Graph graph = words_after_layers(32, 96);
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  options.budget_bytes = free->plan.arena_bytes * 65 / 100;
  options.split = {.parts = 0};
  const auto any = pipeline::optimize(graph, options);
  ASSERT_TRUE(any.has_value()) << any.error().message;
  EXPECT_EQ(any->asked_rewrites, std::vector<std::string>{"loss-by-classes"});
  EXPECT_TRUE(has_cut_of(*any, "logits"));
  EXPECT_LE(any->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(any->plan).ok());
  expect_right_results(any->plan, step, *kernels);
  options.rewrites.without.emplace_back("loss-by-classes");
  const auto refused = pipeline::optimize(graph, options);
  if (!refused) {
    EXPECT_TRUE(pipeline::is_about_budget(refused.error())) << refused.error().message;
  } else {
    EXPECT_LT(any->plan.claims.predicted_seconds, refused->plan.claims.predicted_seconds);
  }
}

// Few rows of very many words, within less than rows keep without much extra time: every part of
// the rows adds to all of the gradient of the words' weights, while each part of the words has its
// own. So words are tried alone, though rows could be cut.
TEST(LabelMoves, TriesWordsAloneWhereRowsAreSlow) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  options.training->loss.kind = autodiff::LossKind::kModelOutput;
  options.device.launch_seconds = 1e-6;  // so that many parts are slow
  const ir::Graph graph = words_after_layers(4, 1024);
  const int64_t weights = int64_t{1024} * 16 * 4;  // bytes
  options.budget_bytes = weights * 21 / 8;
  pipeline::Candidate rows{.labels = {.parts = 8}};
  pipeline::Trials trials;
  auto in_rows = pipeline::optimize(graph, pipeline::with(options, rows));
  ASSERT_TRUE(in_rows.has_value()) << in_rows.error().message;
  trials.best = *in_rows, trials.of_best = rows;
  pipeline::PlanningTime time;
  ASSERT_TRUE(pipeline::try_more_cuts(graph, options, time, trials));
  EXPECT_TRUE(trials.of_best.labels.whole()) << fission::print(trials.of_best.labels);
  EXPECT_EQ(trials.of_best.rewrites, std::vector<std::string>{"loss-by-classes"});
  EXPECT_LT(trials.seconds(), in_rows->plan.claims.predicted_seconds);
  EXPECT_TRUE(verify::verify(trials.best->plan).ok());
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  expect_right_results(trials.best->plan, step, *kernels);
}

// Where nothing fits, what the search goes on with is the first that was tried alone.
TEST(LabelMoves, WordsThatMissAloneAreNotForgotten) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = quick_options(*kernels);
  options.training->loss.kind = autodiff::LossKind::kModelOutput;
  const ir::Graph graph = words_after_layers(4, 1024);
  options.budget_bytes = 140'000;  // 160 bytes above what is proven of 16 parts of the words
  pipeline::Trials trials;
  pipeline::PlanningTime time;
  ASSERT_TRUE(pipeline::try_more_cuts(graph, options, time, trials));
  ASSERT_FALSE(trials.best.has_value());
  EXPECT_GT(trials.count, 0U);
  EXPECT_EQ(trials.last.rewrites, std::vector<std::string>{"loss-by-classes"});
  EXPECT_TRUE(trials.last.labels.whole());
  ASSERT_EQ(trials.last.cuts.size(), 1U);
  EXPECT_EQ(trials.last.cuts.front().parts, 16);
}

// Of two images, with norms whose statistics are of both.
ir::Graph normed_images() {
  GraphWriter net;
  ValueId x = net.given("x", {2, 8, 16, 16});
  for (int layer = 0; layer < 3; ++layer) {
    x = net.op("Conv", {x, net.given("w", {8, 8, 1, 1}, Category::kParameter)},
               {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{0, 0, 0, 0}}});
    x = net.op(
        "BatchNormTrain",
        {x, net.given("s", {8}, Category::kParameter), net.given("b", {8}, Category::kParameter)},
        {{"epsilon", 1e-3}});
    x = net.op("Tanh", {x});
  }
  net.result(x);
  return net.graph();
}

// What a state is estimated to take within the budget, as a multiple of what the plan with its
// labels and cuts takes.
double estimated_to_planned(const ir::Graph& forward, const pipeline::LabelProblem& of,
                            const fission::Labels& labels, pipeline::OptimizeOptions options) {
  const std::string said =
      fission::print(labels) + (options.cuts.empty() ? "" : " " + fission::print(options.cuts[0]));
  const pipeline::LabelSearchTuning tuning;
  const auto found = pipeline::LabelJudge(options, tuning)
                         .search(of, labels, {.max_units = 4'000'000}, {.units = 4'000'000})
                         .value();
  EXPECT_TRUE(found.schedule.has_value()) << said;
  options.split = labels;
  const auto made = pipeline::optimize(forward, options);
  EXPECT_TRUE(made.has_value()) << said << ": " << made.error().message;
  if (!found.schedule || !made) return 0;
  EXPECT_TRUE(verify::verify(made->plan).ok()) << said;
  return found.schedule->seconds / made->plan.claims.predicted_seconds;
}

// The number of states, and of those with levels.
std::pair<int, int> expect_states_are_plans(const ir::Graph& graph,
                                            const pipeline::OptimizeOptions& given) {
  const pipeline::LabelSearchTuning tuning;
  const ir::Graph step = pipeline::step_to_cut(graph, given).value();
  const auto alone = pipeline::LabelProblem::make(step, given, tuning.order_units).value();
  const double without =
      estimated_to_planned(graph, *alone, {.parts = alone->axis_class().least_extent}, given);
  EXPECT_NEAR(without, 1, 0.12);
  const auto moves = pipeline::step_moves(graph, step, given).value();
  std::set<std::string> axes;
  std::pair<int, int> counts = {0, 0};
  for (const pipeline::Candidate& move : moves.moves) {
    if (move.cuts.empty() || !axes.insert(move.cuts[0].axis).second) continue;
    auto moved = moves.step(move).value();
    auto problem = pipeline::LabelProblem::make(std::move(moved.graph), given, tuning.order_units,
                                                std::move(moved.how));
    const pipeline::PosedVariant posed(std::move(problem).value(), 1, given, tuning);
    std::vector<fission::Labels> some = {{.parts = posed.most_parts()}};
    const auto beside = posed.neighbours({.parts = 2}).value();
    for (const fission::Labels& labels : beside)
      if (!labels.nests.empty() && some.size() < 3 && posed.problem().cut(labels).value())
        some.push_back(labels);
    auto options = given;
    options.cuts = move.cuts;
    for (const fission::Labels& labels : some) {
      const double with = estimated_to_planned(graph, posed.problem(), labels, options);
      EXPECT_NEAR(with, without, 0.08)
          << fission::print(labels) << " with " << fission::print(move.cuts[0]);
      ++counts.first, counts.second += !labels.nests.empty();
    }
  }
  return counts;
}

// What a state with a cut is estimated to take is as near to what a plan with its labels and cuts
// takes as without the cut: for even parts and for levels within them, with and without a link, in
// one pass and in several, where estimates are a tenth off anyway.
TEST(LabelMoves, StatesWithCutsAreWhatPlansOfThemAre) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int all = 0, with_levels = 0;
  for (const auto& [graph, percent] :
       {std::pair{coupled_heads(4), 50}, std::pair{normed_images(), 75}})
    for (const bool link : {false, true}) {
      auto options = quick_options(*kernels);
      options.rewrites.without = {"query-blocks"};
      if (link)
        options.slow_tiers = {{"host", {.bytes_per_second_out = 1e9, .bytes_per_second_in = 1e9}}};
      const ir::Graph step = pipeline::step_to_cut(graph, options).value();
      const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
      options.budget_bytes = peak * percent / 100;
      const auto [states, levels] = expect_states_are_plans(graph, options);
      all += states, with_levels += levels;
    }
  EXPECT_GE(all, 16);
  EXPECT_GE(with_levels, 4);
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
}  // namespace lowtide::label_moves_test
