#include "rewrite/shared_operand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "rewrite/slice_concat.h"
#include "support/graph_writer.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

// A product takes a second, whatever its size; all else a millisecond.
Result<double> by_number(const plan::OpDesc& op) {
  return op.kind == "MatMul" || op.kind == "Conv" ? 1.0 : 1e-3;
}
// A second for each element of the result.
Result<double> by_size(const plan::OpDesc& op) {
  return op.kind == "MatMul" || op.kind == "Conv"
             ? static_cast<double>(plan::element_count(op.outputs[0]))
             : 1e-3;
}

struct Sharing : GraphWriter {
  ValueId weight(ir::Dims dims) { return given("w", std::move(dims), Category::kParameter); }
  ValueId matmul(ValueId a, ValueId b, ValueId bias = {}, const ir::Attrs& attrs = {}) {
    return op("MatMul", {a, b, bias}, attrs);
  }
  ValueId conv(ValueId x, ValueId w, ValueId bias = {}) {
    return op("Conv", {x, w, bias}, {{"pads", ir::Dims{1, 1, 1, 1}}});
  }
  ValueId concat(ValueId a, ValueId b, int64_t axis) {
    return op("Concat", {a, b}, {{"axis", axis}});
  }
  ValueId columns(ValueId v, int64_t begin, int64_t size) {
    return op("Slice", {v},
              {{"starts", ir::Dims{0, begin}}, {"sizes", ir::Dims{graph_.value(v).dims[0], size}}});
  }
};

ir::Graph joined(const ir::Graph& graph, int64_t products, const OpSeconds& seconds = by_number) {
  const auto report = join_products(graph, seconds);
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  if (!report) return {};
  EXPECT_EQ(report->products, products);
  expect_same_results(graph, report->graph);
  return report->graph;
}

ir::Graph cancelled(const ir::Graph& graph) {
  const auto report = apply_rules(graph, slice_concat_rules());
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  expect_same_results(graph, report->graph);
  return report->graph;
}

// ---- the nine rules of TASO's release that are not of sums and products ----

TEST(SharedOperand, MergeMatmulRule) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  w.result(w.op("Tanh", {w.matmul(x, w.weight({4, 5}))}));
  w.result(w.op("Exp", {w.matmul(x, w.weight({4, 5}))}));
  EXPECT_EQ(ops_called(joined(w.graph(), 2), "MatMul"), 1);
}

TEST(SharedOperand, MergeMatmulRule1) {
  Sharing w;
  const ValueId weight = w.weight({4, 5});
  w.result(w.op("Tanh", {w.matmul(w.given("x", {3, 4}), weight)}));
  w.result(w.op("Exp", {w.matmul(w.given("y", {2, 4}), weight)}));
  EXPECT_EQ(ops_called(joined(w.graph(), 2), "MatMul"), 1);
}

// Of kernels that differ in size: enlarged_kernels_test.cc.
TEST(SharedOperand, MergeConv2dRule) {
  Sharing w;
  const ValueId x = w.given("x", {2, 3, 5, 5});
  w.result(w.conv(x, w.weight({4, 3, 3, 3})));
  w.result(w.conv(x, w.weight({2, 3, 3, 3})));
  EXPECT_EQ(ops_called(joined(w.graph(), 2), "Conv"), 1);
}

TEST(SharedOperand, MergeConv2dRule1) {
  Sharing w;
  const ValueId weight = w.weight({4, 3, 3, 3}), bias = w.weight({4});
  w.result(w.conv(w.given("x", {2, 3, 5, 5}), weight, bias));
  w.result(w.conv(w.given("y", {1, 3, 5, 5}), weight, bias));
  EXPECT_EQ(ops_called(joined(w.graph(), 2), "Conv"), 1);
}

// Concats of two products: joined, and then the slices cancel against the concat.
TEST(SharedOperand, ConcatMatmulRuleAndRule1) {
  for (const bool weights : {false, true}) {
    Sharing w;
    const ValueId x = w.given("x", {3, 4}), y = w.given("y", {2, 4});
    const ValueId a = w.weight({4, 5}), b = w.weight({4, 6});
    w.result(w.op("Tanh", {weights ? w.concat(w.matmul(x, a), w.matmul(x, b), 1)
                                   : w.concat(w.matmul(x, a), w.matmul(y, a), 0)}));
    const ir::Graph after = cancelled(joined(w.graph(), 2));
    EXPECT_EQ(ops_called(after, "MatMul"), 1);
    EXPECT_EQ(ops_called(after, "Slice"), 0);
    EXPECT_EQ(ops_called(after, "Concat"), 1);  // of weights, or of inputs
  }
}

TEST(SharedOperand, ConcatConv2dRuleAndRule1) {
  for (const bool weights : {false, true}) {
    Sharing w;
    const ValueId x = w.given("x", {2, 3, 5, 5}), y = w.given("y", {1, 3, 5, 5});
    const ValueId a = w.weight({4, 3, 3, 3}), b = w.weight({2, 3, 3, 3});
    w.result(w.op("Tanh", {weights ? w.concat(w.conv(x, a), w.conv(x, b), 1)
                                   : w.concat(w.conv(x, a), w.conv(y, a), 0)}));
    const ir::Graph after = cancelled(joined(w.graph(), 2));
    EXPECT_EQ(ops_called(after, "Conv"), 1);
    EXPECT_EQ(ops_called(after, "Slice"), 0);
    EXPECT_EQ(ops_called(after, "Concat"), 1);
  }
}

// Q, K and V: batches of inputs, several weights of any width, with biases.
TEST(SharedOperand, MergeFlexMatmulRule) {
  for (const bool transposed : {false, true}) {
    Sharing w;
    const ValueId x = w.given("x", {2, 3, 4});
    const ir::Attrs attrs = {{"trans_b", int64_t{transposed}}};
    for (const int64_t n : {4, 4, 2})
      w.result(w.op("Tanh", {w.matmul(x, w.weight(transposed ? ir::Dims{n, 4} : ir::Dims{4, n}),
                                      w.weight({n}), attrs)}));
    const ir::Graph after = joined(w.graph(), 3);
    EXPECT_EQ(ops_called(after, "MatMul"), 1);
    EXPECT_EQ(ops_called(after, "Concat"), 2);
  }
}

// ---- conditions ----

TEST(SharedOperand, WhatDiffersStays) {
  Sharing w;
  const ValueId x = w.given("x", {4, 4});
  w.result(w.matmul(x, w.weight({4, 5})));
  w.result(w.matmul(x, w.weight({5, 4}), {}, {{"trans_b", int64_t{1}}}));
  w.result(w.matmul(x, w.weight({4, 5}), w.weight({5})));
  w.result(w.matmul(x, w.weight({2, 4, 5})));
  w.result(w.op("MatMul", {x, w.weight({4, 4}), ValueId(), w.op("Tanh", {x})}));  // an accumulator
  joined(w.graph(), 0);
}

// The second weight is made of the first result: joined, they would wait for each other.
TEST(SharedOperand, NoCycleArises) {
  Sharing w;
  const ValueId x = w.given("x", {4, 4});
  const ValueId first = w.matmul(x, w.weight({4, 4}));
  w.result(w.matmul(x, w.op("Tanh", {first})));
  w.result(w.op("Exp", {w.matmul(x, w.weight({4, 3}))}));
  const ir::Graph after = joined(w.graph(), 2);
  EXPECT_EQ(ops_called(after, "MatMul"), 2);
  EXPECT_TRUE(ir::check(after).has_value());
}

// What the second one needs is made between them, and comes before both.
TEST(SharedOperand, WhatIsNeededComesFirst) {
  Sharing w;
  const ValueId x = w.given("x", {4, 4}), v = w.weight({4, 4});
  w.result(w.op("Exp", {w.matmul(x, v)}));
  const ValueId made = w.op("Tanh", {w.op("Sigmoid", {v})});
  w.result(w.op("Exp", {w.matmul(x, made)}));
  joined(w.graph(), 2);
}

TEST(SharedOperand, NothingIsDoneThatTakesLonger) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  w.result(w.matmul(x, w.weight({4, 5})));
  w.result(w.matmul(x, w.weight({4, 5})));
  joined(w.graph(), 0, by_size);
}

TEST(SharedOperand, ErrorsOfThePriceAreHandedOn) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  w.result(w.matmul(x, w.weight({4, 5})));
  w.result(w.matmul(x, w.weight({4, 5})));
  const auto report = join_products(w.graph(), [](const plan::OpDesc& op) -> Result<double> {
    return error(ErrorCode::kInput, "no price for " + op.kind);
  });
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "no price for MatMul");
}

// ---- the reverse ----

TEST(SharedOperand, WhatNobodyReadsIsNotComputed) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  const ValueId whole = w.matmul(x, w.weight({4, 10}), w.weight({10}));
  w.result(w.columns(whole, 1, 2));
  w.result(w.op("Tanh", {w.columns(whole, 6, 3)}));
  const auto report = part_products(w.graph(), by_size);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->products, 1);
  EXPECT_EQ(ops_called(report->graph, "MatMul"), 2);
  expect_same_results(w.graph(), report->graph);
}

TEST(SharedOperand, AWholeThatIsReadIsNotTakenApart) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  const ValueId whole = w.matmul(x, w.weight({4, 10}));
  w.result(w.columns(whole, 1, 2));
  w.result(w.op("Tanh", {whole}));
  const auto report = part_products(w.graph(), by_size);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->products, 0);
}

// Joined and taken apart again it is what it was: the slices of the joined weights are the weights.
TEST(SharedOperand, JoiningIsUndone) {
  Sharing w;
  const ValueId x = w.given("x", {3, 4});
  for (const int64_t n : {5, 6, 2})
    w.result(w.op("Tanh", {w.matmul(x, w.weight({4, n}), w.weight({n}))}));
  const ir::Graph one = joined(w.graph(), 3);
  const auto report = part_products(one, [](const plan::OpDesc& op) -> Result<double> {
    return op.kind == "Slice" && op.outputs[0].dims[0] == 3 ? 1.0 : 1e-3;  // of results
  });
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->products, 1);
  const ir::Graph again = cancelled(report->graph);
  EXPECT_EQ(ops_called(again, "MatMul"), 3);
  EXPECT_EQ(again.op_count(), w.graph().op_count());
  expect_same_results(w.graph(), again);
}

}  // namespace
}  // namespace lowtide::rewrite
