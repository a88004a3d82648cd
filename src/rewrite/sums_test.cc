// Chains in another order. Whole networks, against the reference executor: tests/sums_test.cc.
#include "rewrite/sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

ValueId apply_backward(ir::Graph& graph, std::string_view kind, std::vector<ValueId> inputs,
                       ir::Attrs attrs = {}) {
  ops::AppendOptions options;
  options.phase = Phase::kBackward;
  const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs), options);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return graph.op(*made).outputs[0];
}

struct Pair {
  ir::Graph graph;
  ValueId a, b;

  // `late`: b needs what is made of something that only follows a.
  explicit Pair(bool late) {
    ir::Value given;
    given.name = "x";
    given.dims = {4, 8};
    const ValueId x = graph.add_value(std::move(given));
    const ir::Attrs rows = {{"axes", ir::Dims{0}}, {"keepdims", int64_t{0}}};
    a = apply_backward(graph, "ReduceSum", {apply_backward(graph, "Exp", {x})}, rows);
    const ValueId other = apply_backward(graph, "Neg", {x});
    b = apply_backward(graph, "ReduceSum", {other, a}, rows);
    if (late) graph.add_control(graph.value(a).producer, graph.value(other).producer);
    graph.set_category(b, Category::kGradient);
    graph.set_output(b, true);
  }
};

std::vector<analysis::Sum> turned(const ir::Graph& graph) {
  std::vector<analysis::Sum> sums = analysis::find_sums(graph);
  EXPECT_EQ(sums.size(), 1U);
  std::reverse(sums[0].contributions.begin(), sums[0].contributions.end());
  return sums;
}

TEST(OrderSums, TheNewFirstHasNoAccumulatorAndTheOldFirstHasOne) {
  const Pair pair(false);
  const auto made = order_sums(pair.graph, turned(pair.graph));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const ir::Graph& graph = made->graph;
  const ir::OpId first = made->op[pair.graph.value(pair.b).producer];
  const ir::OpId second = made->op[pair.graph.value(pair.a).producer];
  EXPECT_LT(first, second);
  EXPECT_EQ(graph.op(first).inputs.size(), 1U);
  ASSERT_EQ(graph.op(second).inputs.size(), 2U);
  EXPECT_EQ(graph.op(second).inputs[1], graph.op(first).outputs[0]);
  const ir::Value& last = graph.value(graph.op(second).outputs[0]);
  EXPECT_EQ(last.name, pair.graph.value(pair.b).name) << "the last version keeps its name";
  EXPECT_TRUE(last.is_output);
  EXPECT_FALSE(graph.value(graph.op(first).outputs[0]).is_output);
  EXPECT_EQ(made->value[pair.b], graph.op(second).outputs[0]);
}

TEST(OrderSums, AnOrderThatTheGraphForbidsIsRefused) {
  const Pair pair(true);
  const auto refused = order_sums(pair.graph, turned(pair.graph));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("cannot contribute"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::rewrite
