// What parts take: the kernels that are timed are those that plans in parts run; what is not timed
// lies between what is; and a split is chosen by the times of a store, not by the roofline.
#include "api/part_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/estimate.h"
#include "exec/cpu/cpu.h"
#include "measure/kernel_case.h"
#include "pipeline/label_search.h"
#include "pipeline/part_kernels.h"
#include "pipeline/split.h"
#include "support/graph_writer.h"

namespace lowtide::part_times_test {
namespace {

using ir::ValueId;
using pipeline::PartKernel;

constexpr int64_t kSamples = 12;

ir::Graph forward() {
  GraphWriter net;
  ValueId x = net.given("x", {kSamples, 4, 16, 16});
  for (int layer = 0; layer < 4; ++layer) {
    x = net.op("Conv", {x, net.given("w", {4, 4, 3, 3}, Category::kParameter)},
               {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}});
    x = net.op(layer % 2 == 0 ? "Tanh" : "Sigmoid", {x});
  }
  x = net.op("Reshape", {x}, {{"shape", ir::Dims{kSamples, 4 * 256}}});
  net.result(net.op("MatMul", {x, net.given("w", {4 * 256, 3}, Category::kParameter)}));
  return net.graph();
}

pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.schedule.remat.limits.max_units = 1'000'000;
  options.find_smallest = false;
  return options;
}

std::vector<PartKernel> kernels_of(const ir::Graph& graph, const pipeline::OptimizeOptions& options,
                                   int64_t parts) {
  auto made = pipeline::kernels_in_parts(graph, options, parts);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? std::move(*made) : std::vector<PartKernel>{};
}

using Law = std::function<double(const cost::OpWork&)>;

// A store as if the kernels of a step in these numbers of parts took what the law says.
cost::CostStore store_of(const ir::Graph& graph, const pipeline::OptimizeOptions& options,
                         const std::vector<int64_t>& numbers, const Law& law) {
  cost::CostStore store;
  for (const int64_t parts : numbers)
    for (const PartKernel& kernel : kernels_of(graph, options, parts)) {
      const std::string key = cost::op_key(kernel.op);
      const cost::OpWork work = cost::op_work(kernel.op).value();
      if (store.find(key) == nullptr)
        store.add(key, {.kernel_class = cost::kernel_class(kernel.op),
                        .flops = work.flops,
                        .bytes = work.bytes,
                        .count = 1,
                        .seconds = {law(work)}});
    }
  return store;
}

TEST(PartKernels, AreThoseThatPlansRun) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  pipeline::OptimizeOptions options = options_with(*kernels);
  const ir::Graph graph = forward();
  for (const int64_t parts : {1, 2, 5}) {
    SCOPED_TRACE(parts);
    const auto needed = pipeline::kernels_in_parts(graph, options, parts);
    ASSERT_TRUE(needed.has_value()) << needed.error().message;
    std::set<std::string> keys;
    int64_t runs = 0;
    for (const PartKernel& kernel : *needed) {
      EXPECT_TRUE(keys.insert(cost::op_key(kernel.op)).second) << cost::op_key(kernel.op);
      runs += kernel.runs;
    }
    options.split = {.parts = parts};
    const auto planned = pipeline::optimize(graph, options);
    ASSERT_TRUE(planned.has_value()) << planned.error().message;
    int64_t ops = 0;
    for (const plan::PlanOpId op : planned->plan.ops.ids()) {
      if (planned->plan.ops[op].predicted_seconds == 0) continue;
      ++ops;
      const std::string key = cost::op_key(plan::describe(planned->plan, op));
      EXPECT_TRUE(keys.contains(key)) << key;
    }
    EXPECT_EQ(runs, ops);
  }
}

TEST(PartKernels, NumbersStandForSizesOfParts) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const pipeline::OptimizeOptions options = options_with(*kernels);
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(pipeline::numbers_of_parts(forward(), options, 64).value(),
            (Numbers{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(pipeline::numbers_of_parts(forward(), options, 5).value(), (Numbers{1, 2, 3, 4}));
}

TEST(PartTimes, EveryKernelOfAPartCanBeTimed) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const pipeline::OptimizeOptions options = options_with(*kernels);
  for (const PartKernel& kernel : kernels_of(forward(), options, 5)) {
    const auto seconds =
        measure::time_op(*kernels, kernel.op, {.least = 3, .seconds = 0, .evicted_bytes = 4096});
    ASSERT_TRUE(seconds.has_value()) << seconds.error().message;
    EXPECT_EQ(seconds->size(), 3U);
    for (const double one : *seconds) EXPECT_GT(one, 0) << cost::op_key(kernel.op);
  }
}

// Timed in 1, 3 and 12 parts: what lies between them is found on the line, and nothing is far off a
// law that no roofline has.
TEST(PartTimes, WhatWasNotTimedLiesBetween) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  pipeline::OptimizeOptions options = options_with(*kernels);
  const ir::Graph graph = forward();
  const Law law = [](const cost::OpWork& work) { return 1e-5 + 3e-9 * std::pow(work.bytes, 0.8); };
  options.costs = store_of(graph, options, {1, 3, 12}, law);
  const cost::Estimator estimator(options.device, &*options.costs);
  for (const int64_t parts : {1, 2, 4, 5, 6, 8}) {
    SCOPED_TRACE(parts);
    cost::Coverage coverage;
    for (const PartKernel& kernel : kernels_of(graph, options, parts)) {
      if (kernel.runs == 0) continue;
      const cost::Estimate estimate = estimator.estimate(kernel.op).value();
      coverage.add(estimate);
      if (!estimate.measured && !estimate.interpolated) continue;
      EXPECT_NEAR(estimate.seconds / law(cost::op_work(kernel.op).value()), 1, 0.1)
          << cost::op_key(kernel.op);
    }
    std::printf("%d parts: %s\n", static_cast<int>(parts), cost::print(coverage).c_str());
    if (parts == 1)
      EXPECT_EQ(coverage.measured_ops, coverage.ops);
    else
      EXPECT_GT(coverage.interpolated_ops, 5);
    EXPECT_GE(coverage.measured_ops + coverage.interpolated_ops, coverage.ops * 9 / 10);
  }
}

// Within one budget: where parts take their share of the time the step is split; where a part takes
// as long as the whole it is not, or as little as can be.
TEST(PartTimes, ASplitIsChosenByTheTimesOfTheStore) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  pipeline::OptimizeOptions options = options_with(*kernels);
  const ir::Graph graph = forward();
  const auto whole = pipeline::optimize(graph, options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  options.budget_bytes = whole->plan.arena_bytes * 70 / 100;
  options.split = {.parts = 0};
  pipeline::OptimizeOptions fair = options, unfair = options;
  fair.costs = store_of(graph, options, {1, 2, 3, 4, 6, 12},
                        [](const cost::OpWork& work) { return 1e-9 * work.bytes; });
  unfair.costs =
      store_of(graph, options, {1, 2, 3, 4, 6, 12}, [](const cost::OpWork&) { return 1e-4; });
  const auto split = pipeline::optimize(graph, fair);
  const auto rerun = pipeline::optimize(graph, unfair);
  ASSERT_TRUE(split.has_value()) << split.error().message;
  ASSERT_TRUE(rerun.has_value()) << rerun.error().message;
  std::printf("fair: %s, unfair: %s\n", fission::print(split->split).c_str(),
              fission::print(rerun->split).c_str());
  EXPECT_FALSE(split->split.whole());
  EXPECT_LT(rerun->ops_in_parts, split->ops_in_parts);
  EXPECT_GT(split->costs.measured_ops, split->costs.ops * 8 / 10) << cost::print(split->costs);
}

}  // namespace
}  // namespace lowtide::part_times_test
