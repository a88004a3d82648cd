#include "rewrite/algebra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

// A graph from a formula: letters, +, products written side by side, brackets. Every operator is an
// op of its own, in the brackets as written; from left to right where there are none.
class Formula : public GraphWriter {
 public:
  explicit Formula(std::string_view text, std::string_view letters = "abcd") {
    for (char letter : letters) given(std::string(1, letter), {5});
    values_.emplace_back();
    for (char c : text) read(c);
    result(sum());
  }
  ValueId value() const { return graph_.outputs()[0]; }

 private:
  // Of each open bracket: the sum so far, and the product that is being read.
  struct Level {
    ValueId sum, product;
  };
  void read(char c) {
    if (c == ' ') return;
    if (c == '(') {
      values_.emplace_back();
    } else if (c == ')') {
      const ValueId inner = sum();
      values_.pop_back();
      multiply(inner);
    } else if (c == '+') {
      values_.back().sum = sum();
      values_.back().product = ValueId::none();
    } else {
      multiply(graph_.find_value(std::string(1, c)).value());
    }
  }
  void multiply(ValueId by) {
    ValueId& product = values_.back().product;
    product = product.valid() ? op("Mul", {product, by}) : by;
  }
  ValueId sum() {
    const Level& level = values_.back();
    return level.sum.valid() ? op("Add", {level.sum, level.product}) : level.product;
  }
  std::vector<Level> values_;
};

// The ops of a graph as text, by the names of given values alone.
std::string structure(const ir::Graph& graph) {
  std::map<ValueId, std::string> text;
  for (ValueId v : graph.values())
    if (!graph.value(v).producer.valid()) text[v] = graph.value(v).name;
  for (ir::OpId id : graph.ops()) {
    const ir::Op& op = graph.op(id);
    text[op.outputs[0]] =
        "(" + text[op.inputs[0]] + (op.kind == "Add" ? "+" : "*") + text[op.inputs[1]] + ")";
  }
  return text[graph.outputs()[0]];
}

ir::Graph rewritten(const ir::Graph& graph) {
  const auto report = apply_rules(graph, algebra_rules());
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  return report ? report->graph : ir::Graph();
}

TEST(Algebra, WhatIsSharedIsTakenOut) {
  const Formula f("ab+(cb+db)");
  EXPECT_EQ(structure(rewritten(f.graph())), "(((a+c)+d)*b)");
  // Shared products, powers and multiples are computed once.
  EXPECT_EQ(rewritten(Formula("aaaa").graph()).op_count(), 2U);
  EXPECT_EQ(rewritten(Formula("a+a+a+a").graph()).op_count(), 2U);
}

// (a + b)(c + d) is four products, and would take four ops.
TEST(Algebra, WhatWouldTakeMoreOpsStays) {
  const Formula f("(a+b)(c+d)");
  EXPECT_EQ(structure(rewritten(f.graph())), "((a+b)*(c+d))");
}

// Of c + (a + b): that the inner sum is a leaf of the outer one.
void expect_inner_sum_stays(const ir::Graph& graph) {
  const auto made_by = [&](size_t op) {
    return graph.value(graph.op(ir::OpId(op)).outputs[0]).name;
  };
  const ir::Graph now = rewritten(graph);
  const auto inner = now.find_value(made_by(0)), outer = now.find_value(made_by(1));
  ASSERT_TRUE(inner && outer);
  const auto& operands = now.op(now.value(*outer).producer).inputs;
  EXPECT_EQ(std::count(operands.begin(), operands.end(), *inner), 1);
}

TEST(Algebra, OtherReadersResultsAndBroadcastsEndATree) {
  {
    Formula f("c+(a+b)");
    const ir::OpId inner = ir::OpId(0);
    f.result(f.op("Tanh", {f.graph().op(inner).outputs[0]}));
    expect_inner_sum_stays(f.graph());
  }
  {
    Formula f("c+(a+b)");
    f.graph().set_output(f.graph().op(ir::OpId(0)).outputs[0], true);
    expect_inner_sum_stays(f.graph());
  }
  {
    GraphWriter w;
    const ValueId a = w.given("a", {3, 5}), b = w.given("b", {5}), c = w.given("c", {3, 5});
    w.result(w.op("Add", {c, w.op("Add", {a, b})}));
    EXPECT_EQ(apply_rules(w.graph(), algebra_rules())->changed, 0);
  }
}

TEST(Algebra, PolynomialsAboveTheLimitsStay) {
  Formula f("a+b", "abcdefghijklmnopqrstuvwx");
  ValueId product = f.value();
  f.graph().set_output(product, false);
  for (char c = 'c'; c < 'w'; c = static_cast<char>(c + 2))
    product = f.op(
        "Mul",
        {product,
         f.op("Add", {f.graph().find_value(std::string(1, c)).value(),
                      f.graph().find_value(std::string(1, static_cast<char>(c + 1))).value()})});
  f.result(product);
  EXPECT_EQ(apply_rules(f.graph(), algebra_rules())->changed, 0);
}

}  // namespace
}  // namespace lowtide::rewrite
