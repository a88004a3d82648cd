// Which chains are sums, and what they are in a problem. Whole networks: tests/sums_test.cc.
#include "analysis/sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/schedule_view.h"
#include "ops/op_table.h"

namespace lowtide::analysis {
namespace {

using ir::ValueId;

// w is used by two products and a lookup; its gradient is a sum of three.
struct Tied {
  ir::Graph graph;
  ValueId a, b, c, total;

  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    ops::AppendOptions options;
    options.phase = Phase::kBackward;
    const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return graph.op(*made).outputs[0];
  }
  ValueId given(ir::Dims dims, DType dtype = DType::kF32) {
    ir::Value value;
    value.name = graph.fresh_name("given");
    value.dims = std::move(dims);
    value.dtype = dtype;
    return graph.add_value(std::move(value));
  }
  Tied() {
    const ir::Attrs turned = {{"trans_a", int64_t{1}}};
    const ValueId x = op("Exp", {given({4, 8})}), y = op("Exp", {given({4, 16})});
    a = op("MatMul", {x, y}, turned);
    b = op("MatMul", {op("Neg", {x}), y, ValueId::none(), a}, turned);
    c = op("GatherGrad", {op("Neg", {y}), given({4}, DType::kI64), b},
           {{"axis", int64_t{0}}, {"dim", int64_t{8}}});
    graph.set_category(c, Category::kGradient);
    total = op("Neg", {c});
    graph.set_output(total, true);
  }
  ir::OpId producer(ValueId v) const { return graph.value(v).producer; }
};

TEST(Sums, AChainOfAccumulatorsIsOne) {
  const Tied tied;
  const std::vector<Sum> sums = find_sums(tied.graph);
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_FALSE(sums[0].first_is_fixed);
  ASSERT_EQ(sums[0].contributions.size(), 3U);
  EXPECT_EQ(sums[0].contributions[0].op, tied.producer(tied.a));
  EXPECT_EQ(sums[0].contributions[0].input, 3U) << "where its accumulator would stand";
  EXPECT_EQ(sums[0].contributions[2].op, tied.producer(tied.c));
  EXPECT_EQ(sums[0].contributions[2].input, 2U);
}

TEST(Sums, AVersionThatSomebodySeesEndsOne) {
  Tied tied;
  tied.graph.set_output(tied.op("Neg", {tied.a}), true);
  const std::vector<Sum> sums = find_sums(tied.graph);
  EXPECT_TRUE(sums.empty()) << "two contributions are left, and the first of them stays the first";
}

TEST(Sums, WhatUpdatesDoNotReadIsNone) {
  Tied tied;
  tied.graph.set_category(tied.c, Category::kTemporary);
  EXPECT_TRUE(find_sums(tied.graph).empty());
}

TEST(Sums, AreOneValueOfTheProblemThatAllContributorsOverwrite) {
  const Tied tied;
  const std::vector<Sum> sums = find_sums(tied.graph);
  OpCosts costs;
  costs.seconds = IdVector<ir::OpId, double>(tied.graph.op_count(), 0);
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(tied.graph.op_count(), 0);
  const ScheduleView view = make_schedule_view(tied.graph, costs, 64, {.sums = sums}).value();
  ASSERT_EQ(view.sums.size(), 1U);
  const plan::ScheduleProblem& problem = view.problem;
  const plan::SchedValue& sum = problem.values[view.sums[0].value];
  const auto op = [&](ValueId v) { return view.sched_op[tied.producer(v)]; };
  EXPECT_EQ(sum.bytes, 8 * 16 * 4);
  EXPECT_EQ(sum.producer, view.sums[0].begin);
  EXPECT_FALSE(view.op[sum.producer].valid()) << "no op of the graph begins it";
  EXPECT_EQ(sum.writers, (std::vector{op(tied.a), op(tied.b), op(tied.c)}));
  EXPECT_EQ(sum.readers, (std::vector{op(tied.a), op(tied.b), op(tied.c), op(tied.total)}));
  for (const ValueId each : {tied.a, tied.b, tied.c}) {
    EXPECT_FALSE(problem.ops[op(each)].may_rerun) << "it would add twice";
    EXPECT_TRUE(std::count(problem.control.begin(), problem.control.end(),
                           std::pair(op(each), op(tied.total))));
    for (const ValueId other : {tied.a, tied.b, tied.c})
      EXPECT_FALSE(std::count(problem.control.begin(), problem.control.end(),
                              std::pair(op(each), op(other))));
  }
  const plan::ScheduleProblem relaxed = relaxed_sums(view);
  EXPECT_TRUE(relaxed.ops[op(tied.b)].may_rerun);
  EXPECT_TRUE(relaxed.values[view.sums[0].value].writers.empty());
}

}  // namespace
}  // namespace lowtide::analysis
