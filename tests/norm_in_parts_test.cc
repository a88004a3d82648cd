// A training step with batch norm, cut along its samples: the rewrite that takes the statistics
// apart (rewrite/batch_norm.h), the class that then spans the step, its parts, and plans of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/labels.h"
#include "pipeline/numbers_by_bound.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "rewrite/batch_norm.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "support/run_against_reference.h"
#include "verify/verify.h"

namespace lowtide::norm_in_parts_test {
namespace {

using ir::ValueId;

constexpr int64_t kSamples = 6, kLayers = 3, kNormOps = 5;  // those that one norm becomes

// Convolutions with batch norm between them, its statistics kept as running ones; or without.
ir::Graph forward(bool norm = true) {
  GraphWriter net;
  ValueId x = net.given("x", {kSamples, 3, 8, 8});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    x = net.op("Conv", {x, net.given("w", {3, 3, 3, 3}, Category::kParameter)},
               {{"pads", ir::Dims{1, 1, 1, 1}}});
    if (!norm) continue;
    const ValueId mean(net.graph().value_count() + 3);  // behind the two that come, and y
    x = net.op("BatchNormTrain",
               {x, net.given("scale", {3}, Category::kParameter),
                net.given("shift", {3}, Category::kParameter)},
               {{"epsilon", 1e-5}});
    net.result(net.op("RunningUpdate", {net.given("running", {3}, Category::kParameter), mean},
                      {{"momentum", 0.1}}));
    x = net.op("Relu", {x});
  }
  x = net.op("Reshape", {x}, {{"shape", ir::Dims{kSamples, 3 * 64}}});
  net.result(net.op("MatMul", {x, net.given("w", {3 * 64, 2}, Category::kParameter)}));
  return net.graph();
}

autodiff::TrainingOptions training() {
  autodiff::TrainingOptions options;
  options.loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.loss.output = "MatMul";
  options.optimizer.kind = autodiff::OptimizerKind::kSgd;
  return options;
}

ir::Graph step() {
  const auto made = autodiff::make_training_graph(forward(), training());
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? *made : ir::Graph();
}

int64_t ops_called(const ir::Graph& graph, std::string_view kind) {
  return std::count_if(graph.ops().begin(), graph.ops().end(),
                       [&](ir::OpId id) { return graph.op(id).kind == kind; });
}

void expect_equal(const ir::Graph& before, const ir::Graph& after) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  context.seed_missing_inputs = true;
  const auto was = ref::interpret(before, {}, context), is = ref::interpret(after, {}, context);
  ASSERT_TRUE(was.has_value()) << was.error().message;
  ASSERT_TRUE(is.has_value()) << is.error().message;
  ASSERT_EQ(before.outputs().size(), after.outputs().size());
  for (const ValueId v : before.outputs()) {
    const auto now = after.find_value(before.value(v).name);
    ASSERT_TRUE(now.has_value()) << before.value(v).name;
    const auto &a = was->at(v).f, &b = is->at(*now).f;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]), 1e-12 * std::max(1.0, std::abs(a[i])))
          << before.value(v).name;
  }
}

TEST(NormInParts, ComputesTheSameStepWhole) {
  const ir::Graph before = step();
  const auto made = rewrite::norm_in_passes(before);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->ops, 2 * kLayers);
  expect_equal(before, made->graph);
}

// Before, the samples end at each norm; after, one class has every op that makes something of them.
TEST(NormInParts, SamplesSpanTheStep) {
  const ir::Graph before = step();
  const ir::Graph after = rewrite::norm_in_passes(before)->graph;
  const fission::AxisClass was = fission::axis_classes(before)->front();
  const fission::AxisClass is = fission::axis_classes(after)->front();
  EXPECT_EQ(is.least_extent, kSamples);
  EXPECT_GT(is.axes.size(), was.axes.size() + kLayers * kNormOps);
  int64_t norm_ops = 0;
  for (const fission::ClassAxis& axis : is.axes)
    norm_ops += after.op(axis.op).kind.starts_with("Batch");
  EXPECT_EQ(norm_ops, kLayers * kNormOps);
}

TEST(NormInParts, ComputesTheSameStepInParts) {
  const ir::Graph before = step();
  const ir::Graph after = rewrite::norm_in_passes(before)->graph;
  const fission::AxisClass samples = fission::axis_classes(after)->front();
  for (const int64_t parts : {2, 4, 6}) {
    SCOPED_TRACE(parts);
    const auto in_parts = fission::expand(after, fission::cut_class(after, samples, parts));
    ASSERT_TRUE(in_parts.has_value()) << in_parts.error().message;
    // A part adds its share to those before it: nothing but the loss is weighed or added apart.
    EXPECT_EQ(ops_called(in_parts->graph, "BatchVariance"), kLayers * parts);
    EXPECT_EQ(ops_called(in_parts->graph, "AffineScalar"),
              ops_called(after, "AffineScalar") + parts);
    EXPECT_EQ(ops_called(in_parts->graph, "Add"), ops_called(after, "Add") + parts - 1);
    expect_equal(before, in_parts->graph);
  }
}

TEST(NormInParts, PlansInPartsTakeTheRewriteAndOthersDoNot) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = kernels.get();
  options.training = training();
  options.schedule.remat.limits.max_units = 1'000'000;
  const auto has = [](const pipeline::Optimized& made) {
    return std::any_of(made.rewrites.begin(), made.rewrites.end(), [](const auto& one) {
      return one.name == "batch-norm-in-two-passes" && one.ops == 2 * kLayers;
    });
  };
  const auto whole = pipeline::optimize(forward(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_FALSE(has(*whole));
  for (const int64_t parts : {2, 3, 6}) {
    SCOPED_TRACE(parts);
    options.split = {.parts = parts};
    const auto made = pipeline::optimize(forward(), options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_TRUE(has(*made));
    EXPECT_DOUBLE_EQ(made->whole_seconds, whole->plan.claims.once_seconds);
    EXPECT_TRUE(verify::verify(made->plan).ok());
    expect_right_results(made->plan, step(), *kernels);
  }
  options.split = {.parts = 2};
  options.rewrites.without = {"batch-norm-in-two-passes"};
  const auto without = pipeline::optimize(forward(), options);
  ASSERT_TRUE(without.has_value()) << without.error().message;
  EXPECT_FALSE(has(*without));
}

// By the better of the whole step, without the rewrite, and parts, with it; below what any schedule
// of the whole step needs, by parts.
TEST(NormInParts, ABudgetGetsTheBetterOfBoth) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.training = training();
  options.schedule.remat.limits.max_units = 5'000'000;
  const auto whole = pipeline::optimize(forward(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  int alone_fits = 0, parts_fit = 0;
  for (const int64_t percent : {60, 45}) {
    SCOPED_TRACE(percent);
    options.budget_bytes = whole->plan.arena_bytes * percent / 100;
    options.split = {};
    const auto alone = pipeline::optimize(forward(), options);
    options.split = {.parts = 0};
    const auto chosen = pipeline::optimize(forward(), options);
    std::printf("%d %%: whole %.3f ms, auto %.3f ms in %s\n", static_cast<int>(percent),
                alone ? 1e3 * alone->plan.claims.predicted_seconds : 0,
                chosen ? 1e3 * chosen->plan.claims.predicted_seconds : 0,
                chosen ? fission::print(chosen->split).c_str() : chosen.error().message.c_str());
    alone_fits += alone.has_value();
    if (alone) {
      ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
      EXPECT_LE(chosen->plan.claims.predicted_seconds, alone->plan.claims.predicted_seconds);
    }
    if (!chosen) continue;
    parts_fit += !alone && !chosen->split.whole();
    EXPECT_EQ(chosen->split.whole(),
              std::none_of(chosen->rewrites.begin(), chosen->rewrites.end(),
                           [](const auto& one) { return one.name == "batch-norm-in-two-passes"; }));
  }
  EXPECT_GT(alone_fits, 0);
  EXPECT_GT(parts_fit, 0);
}

// Of ops that are too small to be launched several times.
pipeline::OptimizeOptions with_little_work() {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.device.launch_seconds = 0;
  options.training = training();
  options.find_smallest = false;
  options.order.limits.max_units = options.pack.limits.max_units = 1'000'000;
  options.schedule.remat.limits.max_units = 1'000'000;
  return options;
}

// Where parts wait for each other, numbers of them come in the order of bounds that plans of them
// keep to; without batch norm nothing waits.
TEST(NormInParts, NumbersAreRankedByBoundsThatHold) {
  pipeline::OptimizeOptions options = with_little_work();
  const auto whole = pipeline::optimize(forward(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  options.budget_bytes = whole->plan.arena_bytes * 3 / 5;
  options.split = {.parts = 0};
  const auto to_cut = pipeline::step_to_cut(forward(), options);
  ASSERT_TRUE(to_cut.has_value()) << to_cut.error().message;
  const auto numbers = pipeline::numbers_by_bound(forward(), *to_cut, options);
  ASSERT_TRUE(numbers.has_value()) << numbers.error().message;
  ASSERT_GE(numbers->size(), 2U);
  double last = 0;
  size_t planned = 0;
  for (const pipeline::Candidate& number : *numbers) {
    SCOPED_TRACE(fission::print(number.labels));
    EXPECT_GE(number.seconds, last);
    last = number.seconds;
    options.split = number.labels;
    const auto made = pipeline::optimize(forward(), options);
    if (!made) continue;
    ++planned;
    EXPECT_GE(made->plan.claims.predicted_seconds, number.seconds * (1 - 1e-9));
  }
  EXPECT_GE(planned, 2U);
  options.split = {.parts = 0};
  const auto plain = pipeline::step_to_cut(forward(/*norm=*/false), options);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  const auto none = pipeline::numbers_by_bound(forward(/*norm=*/false), *plain, options);
  ASSERT_TRUE(none.has_value()) << none.error().message;
  EXPECT_TRUE(none->empty());
}

TEST(NormInParts, TheBestIsNeverSlowerThanAnyNumberOfParts) {
  pipeline::OptimizeOptions options = with_little_work();
  const auto whole = pipeline::optimize(forward(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  int planned = 0;
  for (const int64_t percent : {45, 60, 35}) {
    if (percent != 45 && !long_checks()) break;
    SCOPED_TRACE(percent);
    options.budget_bytes = whole->plan.arena_bytes * percent / 100;
    options.split = {.parts = 0};
    const auto chosen = pipeline::optimize(forward(), options);
    if (chosen)
      std::printf("%d %%: %.4f us in %s\n", static_cast<int>(percent),
                  1e6 * chosen->plan.claims.predicted_seconds,
                  fission::print(chosen->split).c_str());
    for (const int64_t parts : {1, 2, 3, 6}) {
      options.split = {.parts = parts};
      const auto made = pipeline::optimize(forward(), options);
      if (!made) continue;
      ++planned;
      ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
      EXPECT_LE(chosen->plan.claims.predicted_seconds, made->plan.claims.predicted_seconds)
          << fission::print(chosen->split) << " for " << parts;
    }
  }
  EXPECT_GE(planned, 2);
}

// Of trials that would go on without end, each leaves time for those that come after it.
TEST(NormInParts, TrialsLeaveTimeForTheNext) {
  pipeline::OptimizeOptions options = with_little_work();
  const auto whole = pipeline::optimize(forward(), options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  options.budget_bytes = whole->plan.arena_bytes * 45 / 100;
  options.schedule.remat.limits.max_units = int64_t{1} << 50;
  options.schedule.remat.limits.max_seconds = 4;
  std::vector<pipeline::Candidate> numbers;
  for (const int64_t parts : {6, 3, 2, 4}) numbers.push_back({.labels = {.parts = parts}});
  for (pipeline::Candidate& number : numbers) number.fits = true;
  pipeline::Trials trials;
  pipeline::PlanningTime time;
  ASSERT_TRUE(pipeline::try_all(forward(), options, numbers, 1, time, trials).has_value());
  EXPECT_EQ(trials.count, numbers.size());
  ASSERT_TRUE(trials.best.has_value());
  EXPECT_TRUE(trials.best->cut_short);
}

// Without the rewrite batch norm keeps the samples together, and little can be cut: the plan says
// which op it is, of how many, and what would help.
TEST(NormInParts, WithoutTheRewriteAPlanNamesWhatKeepsTheSamplesTogether) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("rtx3090").value();
  options.training = training();
  options.split = {.parts = 2};
  const auto with = pipeline::optimize(forward(), options);
  ASSERT_TRUE(with.has_value()) << with.error().message;
  EXPECT_TRUE(with->notes.empty()) << with->notes.front();
  options.rewrites.without = {"batch-norm-in-two-passes"};
  const auto without = pipeline::optimize(forward(), options);
  ASSERT_TRUE(without.has_value()) << without.error().message;
  EXPECT_LT(without->ops_in_parts, with->ops_in_parts);
  ASSERT_EQ(without->notes.size(), 1U);
  const std::string& note = without->notes.front();
  EXPECT_EQ(note.find("--split: only "), 0U) << note;
  EXPECT_NE(note.find("op 'BatchNormTrain' (BatchNormTrain) needs all of 'n' at once, and " +
                      std::to_string(2 * kLayers - 1) +
                      " more ops likewise; leave the rewrite batch-norm-in-two-passes on"),
            std::string::npos)
      << note;
}

}  // namespace
}  // namespace lowtide::norm_in_parts_test
