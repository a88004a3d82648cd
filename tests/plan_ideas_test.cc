// The switches of a plan (pipeline/optimize.h), each on networks where it matters: without it, the
// plan needs more memory or time, or the answer says less. Every plan, with and without, passes the
// verifier. That results are right is the matter of pieces_test.cc, sums_test.cc and
// strided_views_test.cc.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/testing/ideas.h"
#include "exec/cpu/cpu.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "support/shared_weights.h"
#include "verify/verify.h"

namespace lowtide::plan_ideas_test {
namespace {

using ir::ValueId;
using pipeline::OptimizeOptions;

std::vector<Idea<OptimizeOptions>> all_switches() {
  return {
      {"pieces", [](OptimizeOptions& o) { o.pieces ^= true; }},
      {"sums", [](OptimizeOptions& o) { o.sums ^= true; }},
      {"strided_views", [](OptimizeOptions& o) { o.strided_views ^= true; }},
      {"look_further", [](OptimizeOptions& o) { o.look_further ^= true; }},
      {"find_smallest", [](OptimizeOptions& o) { o.find_smallest ^= true; }},
  };
}

auto fields_of(const OptimizeOptions& options) {
  const auto& [training, device, costs, kernels, budget_bytes, slow_tiers, pieces, sums,
               strided_views, rewrites, query_blocks, cuts, split, mutations, ideas, starts, order,
               pack, schedule, proof_units, progress, dump_folder, pack_retries, schedules_packed,
               look_further, parts_floor, find_smallest, most_seconds] = options;
  return std::tie(training, device, costs, kernels, budget_bytes, slow_tiers, pieces, sums,
                  strided_views, rewrites, query_blocks, cuts, split, mutations, ideas, starts,
                  order, pack, schedule, proof_units, progress, dump_folder, pack_retries,
                  schedules_packed, look_further, parts_floor, find_smallest, most_seconds);
}

TEST(PlanIdeas, TheListHasEverySwitch) {
  EXPECT_EQ(fault_of_ideas(all_switches(), [](const OptimizeOptions& o) { return fields_of(o); }),
            "");
}

class PlanIdeasTest : public testing::Test {
 protected:
  OptimizeOptions options() const {
    OptimizeOptions made;
    made.device = cost::find_device("cpu").value();
    made.kernels = kernels_.get();
    made.schedule.remat.limits.max_units = made.schedule.swap.limits.max_units = 2'000'000;
    return made;
  }

  static OptimizeOptions without(OptimizeOptions options, std::string_view name) {
    for (const auto& idea : all_switches())
      if (idea.name == name) idea.turn(options);
    return options;
  }

  static pipeline::Optimized planned(const ir::Graph& graph, const OptimizeOptions& options) {
    auto made = pipeline::optimize(graph, options);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    const verify::Report report = verify::verify(made->plan);
    for (const verify::Finding& finding : report.findings) ADD_FAILURE() << finding.message;
    return std::move(*made);
  }

  std::unique_ptr<runtime::KernelFactory> kernels_ = exec_cpu::make_cpu_kernels({.threads = 1});
};

// Both operands of the Concat are made for it alone, and lie where they belong.
TEST_F(PlanIdeasTest, WithoutPiecesAConcatCopies) {
  GraphWriter net;
  const ValueId in = net.given("x", {32, 16});
  const ValueId both =
      net.op("Concat", {net.op("Exp", {in}), net.op("Tanh", {in})}, {{"axis", int64_t{0}}});
  net.result(net.op("Relu", {both}));
  const auto with = planned(net.graph(), options());
  const auto copied = planned(net.graph(), without(options(), "pieces"));
  const auto concats = [](const plan::Plan& plan) {
    int count = 0;
    for (const plan::PlanOp& op : plan.ops) count += op.kind == "Concat";
    return count;
  };
  EXPECT_EQ(concats(with.plan), 0);
  EXPECT_EQ(concats(copied.plan), 1);
  EXPECT_LT(with.plan.claims.predicted_seconds, copied.plan.claims.predicted_seconds);
  EXPECT_LT(with.plan.claims.peak_bytes, copied.plan.claims.peak_bytes);
}

// A Transpose whose reader's kernel takes strides.
TEST_F(PlanIdeasTest, WithoutStridedViewsATransposeCopies) {
  GraphWriter net;
  const ValueId x = net.op("Exp", {net.given("x", {2, 24, 6, 32})});
  const ValueId heads = net.op("Transpose", {x}, {{"perm", ir::Dims{0, 2, 1, 3}}});
  net.result(net.op("Softmax", {heads}, {{"axis", int64_t{3}}}));
  const auto with = planned(net.graph(), options());
  const auto copied = planned(net.graph(), without(options(), "strided_views"));
  const auto strided = [](const plan::Plan& plan) {
    int count = 0;
    for (const plan::PlanValue& value : plan.values) count += value.type.layout.strided();
    return count;
  };
  EXPECT_EQ(strided(with.plan), 1);
  EXPECT_EQ(strided(copied.plan), 0);
  EXPECT_LT(with.plan.claims.predicted_seconds, copied.plan.claims.predicted_seconds);
}

// Weights that are used again and again: each gradient is a sum, and its order is a chain.
TEST_F(PlanIdeasTest, WithoutSumsInAnyOrderThePeakIsHigher) {
  OptimizeOptions training = options();
  training.training.emplace();
  training.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  int higher = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const SharedWeights network(seed, 12);
    const auto free = planned(network.graph(), training);
    const auto chained = planned(network.graph(), without(training, "sums"));
    // Which contributor is the first is open until the order is settled, and on some processors
    // LayerNormGrad has 64 bytes of scratch more where it adds.
    EXPECT_LE(free.plan.claims.peak_bytes, chained.plan.claims.peak_bytes + 64) << seed;
    higher += free.plan.claims.peak_bytes < chained.plan.claims.peak_bytes;
  }
  EXPECT_GT(higher, 0);
}

// A step whose activations make the peak.
class PlanIdeasOfBudgetsTest : public PlanIdeasTest {
 protected:
  PlanIdeasOfBudgetsTest() {
    ValueId x = net_.given("x", {64, 16});
    for (int i = 0; i < 8; ++i) {
      const ValueId w = net_.given("w" + std::to_string(i), {16, 16}, Category::kParameter);
      x = net_.op("Tanh", {net_.op("MatMul", {x, w, ValueId::none(), ValueId::none()})});
    }
    net_.result(x);
    training_ = options();
    training_.training.emplace();
    training_.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  }

  GraphWriter net_;
  OptimizeOptions training_;
};

TEST_F(PlanIdeasOfBudgetsTest, LookingFurtherSaysWhatMoreMemoryBuys) {
  const auto least = pipeline::least_bytes(net_.graph(), training_);
  const auto whole = planned(net_.graph(), training_);
  ASSERT_TRUE(least.has_value());
  training_.budget_bytes = *least + (whole.plan.arena_bytes - *least) / 2;
  const auto silent = planned(net_.graph(), training_);
  const auto further = planned(net_.graph(), without(training_, "look_further"));
  EXPECT_FALSE(silent.more_memory);
  ASSERT_TRUE(further.more_memory);
  EXPECT_GT(further.more_memory->budget_bytes, *training_.budget_bytes);
  EXPECT_LT(further.more_memory->seconds, further.plan.claims.predicted_seconds);
  EXPECT_EQ(further.plan.steps.size(), silent.plan.steps.size());
}

TEST_F(PlanIdeasOfBudgetsTest, FindingTheSmallestSaysHowSmallABudgetMayBe) {
  const auto least = pipeline::least_bytes(net_.graph(), training_);
  ASSERT_TRUE(least.has_value());
  training_.budget_bytes = *least - 1;
  const auto told = pipeline::optimize(net_.graph(), training_);
  const auto short_of_it = pipeline::optimize(net_.graph(), without(training_, "find_smallest"));
  ASSERT_FALSE(told.has_value());
  ASSERT_FALSE(short_of_it.has_value());
  EXPECT_EQ(told.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(short_of_it.error().code, ErrorCode::kInfeasible);
  const std::string words = "the smallest arena found has ";
  const size_t at = told.error().message.find(words);
  ASSERT_NE(at, std::string::npos) << told.error().message;
  EXPECT_EQ(short_of_it.error().message.find(words), std::string::npos);
  training_.budget_bytes = std::stoll(told.error().message.substr(at + words.size()));
  EXPECT_LE(planned(net_.graph(), training_).plan.arena_bytes, *training_.budget_bytes);
}

}  // namespace
}  // namespace lowtide::plan_ideas_test
