// Graphs with nothing to compute: no ops at all, or ops that only make views. Every way through the
// pipeline takes them: with and without a budget, with recompute and transfers, as a front.
#include <gtest/gtest.h>

#include "pipeline/front.h"
#include "pipeline/testing/layers.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

ir::Graph without_ops() {
  ir::Graph graph;
  graph.name = "none";
  graph.set_output(add_value(graph, "x", {8, 8}, Category::kInput), true);
  add_value(graph, "w", {8, 8}, Category::kParameter);
  return graph;
}

ir::Graph empty() {
  ir::Graph graph;
  graph.name = "empty";
  return graph;
}

// Views of views, of an input and of a parameter.
ir::Graph only_views() {
  ir::Graph graph;
  graph.name = "views";
  const auto x = add_value(graph, "x", {8, 8}, Category::kInput);
  const auto w = add_value(graph, "w", {64}, Category::kParameter);
  const auto rows =
      apply(graph, "Slice", {x}, {{"starts", ir::Dims{2, 0}}, {"sizes", ir::Dims{4, 8}}});
  graph.set_output(apply(graph, "Reshape", {rows}, {{"shape", ir::Dims{32}}}), true);
  graph.set_output(apply(graph, "Reshape", {w}, {{"shape", ir::Dims{8, 8}}}), true);
  return graph;
}

std::vector<ir::Graph> graphs() {
  return {without_ops(), empty(), only_views()};
}

OptimizeOptions with_a_link(bool recompute, bool link) {
  OptimizeOptions options = options_on_cpu();
  options.schedule.recompute = recompute;
  if (link) options.slow_tiers = {{"host", {1e9, 1e9, 1e-6, 0}}};
  return options;
}

TEST(Degenerate, APlanWithoutABudget) {
  for (const ir::Graph& graph : graphs()) {
    const auto made = optimize(graph, options_on_cpu());
    ASSERT_TRUE(made.has_value()) << graph.name << ": " << made.error().message;
    EXPECT_EQ(made->plan.arena_bytes, graph.value_count() == 0 ? 0 : 512);
    EXPECT_EQ(made->plan.claims.predicted_seconds, 0);
    EXPECT_TRUE(made->plan.claims.order_proven);
  }
}

TEST(Degenerate, EveryBudgetHasAPlanOrAProofThatThereIsNone) {
  int refused = 0, kept = 0;
  for (const ir::Graph& graph : graphs())
    for (const bool recompute : {false, true})
      for (const bool link : {false, true})
        for (const int64_t budget : {0, 1, 64, 256, 511, 512, 100000}) {
          OptimizeOptions options = with_a_link(recompute, link);
          options.budget_bytes = budget;
          const auto made = optimize(graph, options);
          SCOPED_TRACE(testing::Message() << graph.name << " recompute " << recompute << " link "
                                          << link << " budget " << budget);
          if (!made) {
            EXPECT_EQ(made.error().code, ErrorCode::kInfeasible) << made.error().message;
            EXPECT_LT(budget, 512);
            ++refused;
            continue;
          }
          EXPECT_LE(made->plan.arena_bytes, budget);
          EXPECT_TRUE(verify::verify(made->plan).ok());
          ++kept;
        }
  EXPECT_GT(refused, 20);
  EXPECT_GT(kept, 20);
}

TEST(Degenerate, Fronts) {
  for (const ir::Graph& graph : graphs())
    for (const bool link : {false, true}) {
      const auto front = optimize_front(graph, with_a_link(true, link), [](int64_t floor, int64_t) {
        return std::vector<int64_t>{100000, floor};
      });
      ASSERT_TRUE(front.has_value()) << graph.name << ": " << front.error().message;
      for (const FrontPoint& point : front->points)
        EXPECT_TRUE(point.made.has_value()) << graph.name << " at " << point.budget_bytes;
      EXPECT_TRUE(least_bytes(graph, with_a_link(true, link)).has_value());
    }
}

}  // namespace
}  // namespace lowtide::pipeline
