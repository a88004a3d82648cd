// The least memory within a time: in time, less with more time, and near what a sweep of budgets
// finds.
#include "pipeline/least_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "pipeline/testing/layers.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

OptimizeOptions options_of_test() {
  OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.schedule.remat.limits.max_units = 2'000'000;
  options.find_smallest = false;
  return options;
}

TEST(LeastMemory, IsInTimeAndFallsWithMoreOfIt) {
  const ir::Graph graph = mlp(12, 256, 16);
  const OptimizeOptions options = options_of_test();
  const auto whole = optimize(graph, options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const double once = whole->plan.claims.once_seconds;
  int64_t before = whole->plan.arena_bytes;
  int less = 0;
  for (const double slowdown : {0.0, 0.02, 0.1, 0.3}) {
    SCOPED_TRACE(slowdown);
    const auto made = least_memory(graph, options, slowdown);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_TRUE(verify::verify(made->plan).ok());
    EXPECT_LE(made->plan.claims.predicted_seconds, once * (1 + slowdown));
    EXPECT_LE(made->plan.arena_bytes, before);
    less += made->plan.arena_bytes < before;
    before = made->plan.arena_bytes;
    // With a twentieth less memory it takes too long, or nothing is found.
    OptimizeOptions smaller = options;
    smaller.budget_bytes = made->plan.arena_bytes * 95 / 100;
    const auto tighter = optimize(graph, smaller);
    EXPECT_TRUE(!tighter || tighter->plan.claims.predicted_seconds > once * (1 + slowdown));
  }
  EXPECT_GE(less, 2);
}

TEST(LeastMemory, SplitsWhereItMay) {
  const ir::Graph graph = mlp(12, 1024, 16);
  OptimizeOptions options = options_of_test();
  options.device.launch_seconds = 0;
  const auto whole = least_memory(graph, options, 0.1);
  options.split = {.parts = 0};
  const auto split = least_memory(graph, options, 0.1);
  ASSERT_TRUE(whole.has_value() && split.has_value());
  EXPECT_LT(split->plan.arena_bytes, whole->plan.arena_bytes * 3 / 4);
  EXPECT_FALSE(split->split.whole());
  EXPECT_LE(split->plan.claims.predicted_seconds, 1.1 * split->whole_seconds);
  double more = 0;  // of ops in parts, over what they take in one
  for (const plan::PlanOp& op : split->plan.ops)
    if (op.unsplit) more += op.predicted_seconds - op.unsplit->seconds;
  EXPECT_NEAR(more, split->plan.claims.once_seconds - split->whole_seconds, 1e-12);
}

// Whatever the time, no refusal names an arena that is smaller than the answer.
TEST(LeastMemory, IsNoLargerThanWhatARefusalNames) {
  for (const int layers : {6, 9, 12, 17}) {
    SCOPED_TRACE(layers);
    const ir::Graph graph = mlp(layers, 96 + 32 * layers, 16);
    OptimizeOptions options = options_of_test();
    options.schedule.remat.limits.max_units = 100'000;
    const auto least = least_memory(graph, options, 1e9);
    ASSERT_TRUE(least.has_value()) << least.error().message;
    const auto named = smallest_arena(graph, options);
    ASSERT_TRUE(named.has_value()) << named.error().message;
    EXPECT_LE(least->plan.arena_bytes, named->value_or(least->plan.arena_bytes));
    EXPECT_TRUE(verify::verify(least->plan).ok());
  }
}

// Where time ends before parts are found, what one part comes to is handed out.
TEST(LeastMemory, HasWhatOnePartComesToWhenTimeEnds) {
  const ir::Graph graph = mlp(12, 256, 16);
  OptimizeOptions options = options_of_test();
  const auto whole = optimize(graph, options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  options.split = {.parts = 0};
  options.schedule.remat.limits.max_seconds = 0.5;
  const auto made = least_memory(graph, options, 0.1);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_LT(made->plan.arena_bytes, whole->plan.arena_bytes * 9 / 10);
  EXPECT_LE(made->plan.claims.predicted_seconds, 1.1 * whole->plan.claims.once_seconds);
}

// Parts that are given are kept, also where one part would do; where they take too long by
// themselves that is an error, which says how much time they need.
TEST(LeastMemory, KeepsThePartsThatAreGiven) {
  const ir::Graph graph = mlp(6, 128, 16);
  OptimizeOptions options = options_of_test();
  options.split = {.parts = 4};
  const auto refused = least_memory(graph, options, 0.01);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  const std::string& message = refused.error().message;
  EXPECT_EQ(message.find("--slowdown: in 4 parts the step takes at least "), 0U) << message;
  const std::string_view words = "1 % are allowed; give --slowdown ";
  const size_t at = message.find(words);
  ASSERT_NE(at, std::string::npos) << message;
  const double needed = std::stod(message.substr(at + words.size())) / 100;
  for (const double slowdown : {needed, 2 * needed}) {
    const auto made = least_memory(graph, options, slowdown);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->split, options.split);
    EXPECT_LE(made->plan.claims.predicted_seconds, made->whole_seconds * (1 + slowdown));
  }
  EXPECT_FALSE(least_memory(graph, options, needed - 0.0011).has_value());
}

TEST(LeastMemory, OfCutsIsComparedWithTheStepWithoutThem) {
  const ir::Graph graph = mlp(12, 256, 16);
  OptimizeOptions options = options_of_test();
  options.cuts = {{.ops = graph.op(ir::OpId(0)).name, .axis = "m", .parts = 8}};
  const auto refused = least_memory(graph, options, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("in these cuts the step takes at least "),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace lowtide::pipeline
