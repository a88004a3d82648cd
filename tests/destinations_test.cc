// Wholes that are written in slices, from graph to run: random networks that join columns and
// channels all the time, planned without a budget, under one, and with a slow tier. Every plan
// passes the verifier (the gate) and the naive judge, which also agree on changed copies of it; it
// runs in an arena of the planned size, poisoned, and its results are what the reference executor
// computes of the graph as it was.
#include "rewrite/destinations.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "support/judge_plan.h"
#include "support/long_checks.h"
#include "support/run_against_reference.h"

namespace lowtide::destinations_test {
namespace {

using ir::ValueId;

// Values are [3, columns] or, of images, [2, channels, 4, 4].
class Network : public GraphWriter {
 public:
  Network(uint64_t seed, int ops, bool images) : rng_(seed), images_(images) {
    graph_.name = "destinations";
    const ir::Dims dims = images ? ir::Dims{2, 8, 4, 4} : ir::Dims{3, 16};
    pool_.push_back(given("x", dims, Category::kInput));
    pool_.push_back(op("Tanh", {pool_[0]}));
    for (int i = 0; i < ops; ++i) grow(i);
    for (ValueId v : graph_.values())
      if (graph_.value(v).producer.valid() && (graph_.readers(v).empty() || rng_.below(8) == 0))
        graph_.set_output(v, true);
  }

 private:
  int64_t columns(ValueId v) const { return *graph_.value(v).dims[1].constant(); }
  ValueId any() {
    const size_t recent = std::min<size_t>(pool_.size(), 8);
    return pool_[pool_.size() - 1 - rng_.below(recent)];
  }

  // A product, or a convolution of one pixel.
  ValueId dense(ValueId x, int64_t to, const std::string& name) {
    const int64_t from = columns(x);
    if (images_) return op("Conv", {x, given(name, {to, from, 1, 1}, Category::kParameter)});
    return op("MatMul",
              {x, given(name, {from, to}, Category::kParameter), ValueId::none(), ValueId::none()});
  }
  ValueId branch(ValueId x, const std::string& name) {
    const ValueId y = rng_.below(3) == 0 ? x : dense(x, 8 * rng_.between(1, 2), name);
    switch (rng_.below(4)) {
      case 0:
        return op("Relu", {y});
      case 1:
        return op("Mul", {y, op("Sigmoid", {y})});
      case 2:
        return op("Exp", {op("Tanh", {y})});
      default:
        return y;
    }
  }

  // What a Reshape shows of a Transpose.
  ValueId heads(ValueId x) {
    const int64_t all = columns(x);
    const ValueId split = op("Reshape", {x}, {{"shape", ir::Dims{all / 4, 3, 4}}});
    const ValueId turned = op("Transpose", {split}, {{"perm", ir::Dims{1, 0, 2}}});
    return op("Reshape", {turned}, {{"shape", ir::Dims{3, all}}});
  }

  void grow(int i) {
    const ValueId x = any();
    const std::string name = "w" + std::to_string(i);
    if (rng_.below(2) == 0) return pool_.push_back(branch(x, name));
    std::vector<ValueId> parts;
    int64_t all = 0;
    const bool turns = !images_ && rng_.below(3) == 0;
    for (uint64_t k = 0, count = 2 + rng_.below(3); k < count; ++k) {
      parts.push_back(rng_.below(5) == 0 ? any() : branch(x, name + "/" + std::to_string(k)));
      if (turns) parts.back() = heads(parts.back());
      all += columns(parts.back());
    }
    if (all > 96) return;
    pool_.push_back(op("Concat", parts, {{"axis", int64_t{1}}}));
  }

  Rng rng_;
  bool images_;
  std::vector<ValueId> pool_;
};

struct Seen {
  int slices = 0, with_rest = 0, reruns = 0, moves = 0, budgets = 0, refused_copies = 0;
  std::map<std::string, int> kinds;
};

void look_at(const plan::Plan& plan, uint64_t seed, Seen& seen) {
  for (const plan::PlanOp& op : plan.ops) {
    if (!op.attrs.contains("into")) continue;
    ++seen.slices;
    ++seen.kinds[op.kind];
  }
  std::map<plan::PlanOpId, int> runs;
  for (const plan::Step& step : plan.steps) {
    seen.moves += step.kind == plan::Step::Kind::kLoad;
    if (step.kind != plan::Step::Kind::kCompute) continue;
    const bool slice = plan.ops[step.op].attrs.contains("into");
    seen.with_rest += slice && !step.makes.empty() && step.makes[0].reuses.valid();
    seen.reruns += slice && runs[step.op]++ > 0;
  }
  seen.refused_copies += judged(plan, some_of(400, 10), seed);
}

pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.find_smallest = false;
  return options;
}

void check_plans(const ir::Graph& graph, pipeline::OptimizeOptions options,
                 const runtime::KernelFactory& kernels, uint64_t seed, Seen& seen) {
  options.order.limits.max_units = 3'000'000;  // what is right does not hang on the order
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  look_at(free->plan, seed, seen);
  expect_right_results(free->plan, graph, kernels);
  options.schedule.remat.limits.max_units = options.schedule.swap.limits.max_units = 1'000'000;
  for (const bool slow : {false, true}) {
    if (testing::Test::HasFailure()) return;
    if (slow) {
      plan::Link link;
      link.bytes_per_second_out = link.bytes_per_second_in = 1e9;
      options.slow_tiers = {{"host", link}};
    }
    const auto least = pipeline::least_bytes(graph, options);
    ASSERT_TRUE(least.has_value()) << least.error().message;
    options.budget_bytes = *least + (free->plan.arena_bytes - *least) / 2;
    const auto tight = pipeline::optimize(graph, options);
    if (!tight) {
      EXPECT_NE(tight.error().code, ErrorCode::kInternal) << tight.error().message;
      continue;
    }
    ++seen.budgets;
    look_at(tight->plan, seed, seen);
    expect_right_results(tight->plan, graph, kernels);
  }
}

TEST(WrittenWholes, ArePlannedProvenAndRun) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  const int seeds = some_of(20, 2);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(seeds); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 14, seed % 2 == 1);
    const bool results = seed % 4 < 2;  // which stay to the end and leave a budget little to do
    const ir::Graph& graph = results ? network.graph() : network.with_one_result();
    check_plans(graph, options_with(*kernels), *kernels, seed, seen);
    if (testing::Test::HasFailure()) return;
  }
  for (const auto& [kind, count] : seen.kinds) RecordProperty("slices of " + kind, count);
  EXPECT_GT(seen.slices, 10 * seeds);
  EXPECT_GT(seen.with_rest, 5 * seeds);
  EXPECT_GT(seen.kinds["MatMul"], seeds / 8);
  EXPECT_GT(seen.kinds["Relu"], seeds);
  EXPECT_GT(seen.kinds["Copy"], seeds);
  EXPECT_GT(seen.kinds["Transpose"], seeds / 4);
  EXPECT_GT(seen.budgets, seeds);
  EXPECT_GT(seen.refused_copies, 25 * seeds);
}

// Not worse than the same network with copies: time, peak, bound and floor.
TEST(WrittenWholes, AreNeverWorseThanCopies) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int slices = 0, lower = 0, faster = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(20, 2)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 12, seed % 2 == 1);
    const ir::Graph& graph = seed % 4 < 2 ? network.graph() : network.with_one_result();
    auto options = options_with(*kernels);
    options.order.limits.max_units = 40'000'000;  // of both alike
    const auto written = pipeline::optimize(graph, options);
    const auto floor = pipeline::least_bytes(graph, options);
    options.pieces = false;
    const auto copies = pipeline::optimize(graph, options);
    const auto floor_of_copies = pipeline::least_bytes(graph, options);
    ASSERT_TRUE(written && copies && floor && floor_of_copies);
    for (const plan::PlanOp& op : written->plan.ops) slices += op.attrs.contains("into");
    for (const plan::PlanOp& op : copies->plan.ops) EXPECT_FALSE(op.attrs.contains("into"));
    EXPECT_LE(written->plan.claims.predicted_seconds, copies->plan.claims.predicted_seconds);
    EXPECT_LE(written->plan.claims.peak_bytes, copies->plan.claims.peak_bytes);
    if (*floor > *floor_of_copies) {  // proven of these only: nothing is found for copies either
      options.budget_bytes = *floor - 1;
      EXPECT_FALSE(pipeline::optimize(graph, options).has_value());
    }
    lower += written->plan.claims.peak_bytes < copies->plan.claims.peak_bytes;
    faster += written->plan.claims.predicted_seconds < copies->plan.claims.predicted_seconds;
  }
  EXPECT_GT(lower, some_of(2, 2));
  EXPECT_GT(slices, some_of(80, 2));
  EXPECT_GT(faster, some_of(12, 2));
}

}  // namespace
}  // namespace lowtide::destinations_test
