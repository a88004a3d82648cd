// Whole plans from small graphs: every one is verified, none is worse than what came in, and bad
// requests are refused in numbers.
#include "pipeline/optimize.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "pipeline/testing/layers.h"
#include "plan/plan_text.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

void expect_sound(const Optimized& optimized) {
  const verify::Report report = verify::verify(optimized.plan);
  for (const verify::Finding& finding : report.findings) ADD_FAILURE() << finding.message;
  const plan::Claims& claims = optimized.plan.claims;
  EXPECT_LE(claims.lower_bound_bytes, claims.peak_bytes);
  EXPECT_LE(claims.lower_bound_bytes, optimized.search_bound_bytes);
  EXPECT_LE(optimized.search_bound_bytes, claims.peak_bytes);
  EXPECT_LE(claims.peak_bytes, claims.peak_before_bytes);
  EXPECT_GE(optimized.plan.arena_bytes, claims.peak_bytes);
}

TEST(Optimize, ATrainingStepIsProvenPackedAndVerified) {
  OptimizeOptions options = options_on_cpu();
  options.training = autodiff::TrainingOptions{};
  options.training->optimizer.kind = autodiff::OptimizerKind::kAdamW;
  const auto optimized = optimize(mlp(6, 8, 64), options);
  ASSERT_TRUE(optimized.has_value()) << optimized.error().message;
  expect_sound(*optimized);
  EXPECT_EQ(optimized->order_status, plan::SolveStatus::kOptimal);
  EXPECT_EQ(optimized->search_bound_bytes, optimized->plan.claims.peak_bytes);
  EXPECT_EQ(optimized->plan.arena_bytes, optimized->plan.claims.peak_bytes);
  // Updates that run early keep one gradient alive instead of six: five matrices less.
  EXPECT_LE(optimized->plan.claims.peak_bytes,
            optimized->plan.claims.peak_before_bytes - 3 * 64 * 64 * 4);
}

TEST(Optimize, NoOtherRoleOfAStorageIsAccepted) {
  OptimizeOptions options = options_on_cpu();
  options.training = autodiff::TrainingOptions{};
  options.training->optimizer.kind = autodiff::OptimizerKind::kAdamW;
  const auto optimized = optimize(mlp(3, 4, 16), options);
  ASSERT_TRUE(optimized.has_value()) << optimized.error().message;
  std::array<int, kCategories> seen{};
  for (plan::PlanStorageId s : optimized->plan.storages.ids()) {
    plan::Plan changed = optimized->plan;
    const Category right = changed.storages[s].category;
    ++seen[static_cast<size_t>(right)];
    for (int c = 0; c < kCategories; ++c) {
      changed.storages[s].category = static_cast<Category>(c);
      EXPECT_EQ(verify::verify(changed).ok(), changed.storages[s].category == right)
          << changed.values[changed.storages[s].root].name << " as "
          << name(changed.storages[s].category);
    }
  }
  for (Category c : {Category::kParameter, Category::kOptimizerState, Category::kGradient,
                     Category::kActivation, Category::kTemporary, Category::kInput})
    EXPECT_GT(seen[static_cast<size_t>(c)], 0) << name(c);
}

TEST(Optimize, TheSameInputGivesTheSameBytes) {
  OptimizeOptions options = options_on_cpu();
  options.training = autodiff::TrainingOptions{};
  const auto first = optimize(mlp(4, 4, 32), options);
  options.order.threads = 2;
  options.pack.threads = 2;
  const auto second = optimize(mlp(4, 4, 32), options);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(plan::print_plan(first->plan), plan::print_plan(second->plan));
}

TEST(Optimize, ABudgetBelowTheArenaIsRefusedWithTheBoundAndTheBestArena) {
  OptimizeOptions options = options_on_cpu();
  const auto enough = optimize(mlp(3, 8, 64), options);
  ASSERT_TRUE(enough.has_value());
  options.budget_bytes = enough->plan.arena_bytes;
  EXPECT_TRUE(optimize(mlp(3, 8, 64), options).has_value());
  options.budget_bytes = enough->plan.arena_bytes - 1;
  const auto refused = optimize(mlp(3, 8, 64), options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  for (int64_t number :
       {*options.budget_bytes, enough->plan.claims.lower_bound_bytes, enough->plan.arena_bytes})
    EXPECT_NE(refused.error().message.find(std::to_string(number)), std::string::npos)
        << refused.error().message;
}

TEST(Optimize, AnEmptyGraphIsAPlanOfNothing) {
  ir::Graph graph;
  const auto optimized = optimize(graph, options_on_cpu());
  ASSERT_TRUE(optimized.has_value()) << optimized.error().message;
  EXPECT_EQ(optimized->plan.arena_bytes, 0);
  expect_sound(*optimized);
}

// A random graph of elementwise ops, products, views and updates on values of a few shapes.
ir::Graph random_graph(Rng& rng) {
  ir::Graph graph;
  const int64_t n = 4 * rng.between(1, 4);
  std::vector<ir::ValueId> square;
  for (int i = 0; i < 2; ++i)
    square.push_back(add_value(graph, "in" + std::to_string(i), {n, n}, Category::kInput));
  std::vector<ir::ValueId> parameters;
  for (int i = 0; i < 2; ++i)
    parameters.push_back(add_value(graph, "p" + std::to_string(i), {n, n}, Category::kParameter));
  const auto pick = [&] { return square[rng.below(square.size())]; };
  for (int i = static_cast<int>(rng.between(3, 14)); i > 0; --i) {
    switch (rng.below(6)) {
      case 0:
        square.push_back(apply(graph, "Relu", {pick()}));
        break;
      case 1:
        square.push_back(apply(graph, "Add", {pick(), pick()}));
        break;
      case 2:
        square.push_back(apply(graph, "MatMul",
                               {pick(), pick(), ir::ValueId::none(), ir::ValueId::none()},
                               {{"trans_a", int64_t{0}}, {"trans_b", int64_t{1}}}));
        break;
      case 3: {
        const auto flat = apply(graph, "Reshape", {pick()}, {{"shape", ir::Dims{n * n}}});
        square.push_back(
            apply(graph, "Reshape", {apply(graph, "Neg", {flat})}, {{"shape", ir::Dims{n, n}}}));
        break;
      }
      case 4:
        square.push_back(apply(graph, "Mul", {pick(), parameters[rng.below(2)]}));
        break;
      default: {
        ir::ValueId& parameter = parameters[rng.below(2)];
        parameter = apply(graph, "SgdUpdate", {parameter, pick(), ir::ValueId::none()},
                          {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}});
      }
    }
    if (rng.below(6) == 0 && graph.value(square.back()).producer.valid())
      graph.set_output(square.back(), true);
  }
  return graph;
}

TEST(Optimize, RandomGraphsAlwaysGiveVerifiedPlans) {
  int optimal = 0, certified = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    const ir::Graph graph = random_graph(rng);
    ASSERT_TRUE(ir::check(graph).has_value()) << "seed " << seed;
    const auto optimized = optimize(graph, options_on_cpu());
    ASSERT_TRUE(optimized.has_value()) << "seed " << seed << ": " << optimized.error().message;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_sound(*optimized);
    const std::string text = plan::print_plan(optimized->plan);
    const auto read = plan::read_plan(text, "test");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_TRUE(*read == optimized->plan);
    optimal += optimized->order_status == plan::SolveStatus::kOptimal &&
               optimized->search_bound_bytes == optimized->plan.claims.peak_bytes;
    certified += optimized->plan.claims.order_proven;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(optimal, 400) << "graphs this small are always solved exactly";
  EXPECT_GT(certified, 200) << "and mostly proven by the plan's own certificate";
}

}  // namespace
}  // namespace lowtide::pipeline
