#include "rewrite/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/ref/interpreter.h"
#include "rewrite/algebra.h"
#include "rewrite/pattern.h"
#include "rewrite/round_trips.h"
#include "rewrite/slice_concat.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

TEST(Rules, EveryRuleOfTheListsCanBeRead) {
  size_t count = 0;
  for (const auto& list :
       {slice_concat_rules(), direct_slice_rules(), round_trip_rules(), algebra_rules()})
    for (const Rule& rule : list) {
      const Status status = check(rule);
      EXPECT_TRUE(status.has_value())
          << rule.name << ": " << (status ? "" : status.error().message);
      EXPECT_EQ(rule.result.empty(), rule.replacement != nullptr) << rule.name;
      ++count;
    }
  EXPECT_GT(count, 20U);
}

TEST(Rules, WrongRowsAreRefused) {
  const std::pair<Rule, const char*> wrong[] = {
      {{"r", "Tanh(", "", "x"},
       "pattern 'Tanh(': a kind, a name, '..' or '-' is wanted at "
       "character 5"},
      {{"r", "Tanh(x)", "is_nice(x)", "x"}, "there is no condition 'is_nice'"},
      {{"r", "Tanh(x)", "is_view", "x"}, "'is_view' takes 1 names, not 0"},
      {{"r", "Slice(x)", "is_all(x, x)", "x"}, "'is_all' does not take 'x'"},
      {{"r", "Tanh(x)", "is_view(y)", "x"},
       "condition 'is_view(y)': a known name, not 'y', is wanted at character 9"},
      {{"r", "Concat(Tanh:t(x)..{grow})", "", "x"}, "there is no relation 'grow'"},
      {{"r", "Slice:s(x)", "", "Slice[of_all(s)](x)"}, "there are no attributes 'of_all'"},
      {{"r", "Slice:s(x)", "", "Slice[of_both(s, x)](x)"}, "'of_both' does not take 'x'"},
      {{"r", "Slice:s(x)", "", "y"},
       "result 'y': a name of the pattern, not 'y', is wanted at "
       "character 1"},
  };
  for (const auto& [rule, message] : wrong) {
    const Status status = check(rule);
    ASSERT_FALSE(status.has_value()) << message;
    EXPECT_EQ(status.error().message, message);
  }
}

// ---- what is done for a rule ----

struct Ops : GraphWriter {
  ValueId x = given("x", {4, 6}), y = given("y", {4, 6});
  ValueId concat(std::vector<ValueId> parts) {
    return op("Concat", std::move(parts), {{"axis", int64_t{0}}});
  }
  RulesReport applied(std::span<const Rule> rules) const {
    auto report = apply_rules(graph_, rules);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    return report ? *report : RulesReport{};
  }
};

// All ops of a graph as text: "Add(x, Tanh(y))" of its first result.
std::string text_of(const ir::Graph& graph) {
  std::map<ValueId, std::string> text;
  for (ValueId v : graph.values())
    if (!graph.value(v).producer.valid()) text[v] = graph.value(v).name;
  for (OpId id : graph.ops()) {
    const ir::Op& op = graph.op(id);
    std::string& made = text[op.outputs[0]];
    made = op.kind + "(";
    for (ValueId input : op.inputs) made += (made.back() == '(' ? "" : ", ") + text[input];
    made += ")";
  }
  return text[graph.outputs()[0]];
}

TEST(Rules, TheFirstMatchCountsWhoseConditionsHold) {
  constexpr Rule kRules[] = {
      {"join", "Concat:c(.., Tanh:t(a), b, ..)", "read_once(t)", "Concat[as(c)](.., b, a, ..)"}};
  Ops w;
  const ValueId often = w.op("Tanh", {w.x}), once = w.op("Tanh", {w.y});
  w.result(w.concat({often, w.y, once, w.x, often}));
  const RulesReport report = w.applied(kRules);
  EXPECT_EQ(text_of(report.graph), "Concat(Tanh(x), y, x, y, Tanh(x))");
  EXPECT_EQ(report.by_rule.at("join"), 1);
  EXPECT_EQ(report.changed, 2);
}

// Of what is made, too: a match that is refused then is taken back, and the next one is tried.
TEST(Rules, ConditionsOfTheResultAreAskedOnceItIsThere) {
  constexpr Rule kRules[] = {{"twice as far", "Concat:c(.., Slice:s(a), ..)",
                              "is_view(made), is_copy(result), same_type(result, c)",
                              "Concat[as(c)](.., Slice[of_both(s, s)]:made(a), ..)"}};
  Ops w;
  const ValueId tall = w.given("tall", {8, 6});
  const auto rows = [&](int64_t start, int64_t size, int64_t step) {
    return w.op("Slice", {tall},
                {{"starts", ir::Dims{start, 0}},
                 {"sizes", ir::Dims{size, 6}},
                 {"steps", ir::Dims{step, 1}}});
  };
  w.result(w.concat({rows(0, 2, 2), rows(1, 1, 1)}));  // a copy, a view
  const RulesReport report = w.applied(kRules);
  EXPECT_EQ(report.by_rule.at("twice as far"), 2);  // row 2, then row 4; there is no row 8
  const ir::Op& joined = report.graph.op(report.graph.value(report.graph.outputs()[0]).producer);
  const auto start = [&](size_t operand) {
    const ir::Op& slice = report.graph.op(report.graph.value(joined.inputs[operand]).producer);
    return std::get<ir::Dims>(slice.attrs.at("starts"))[0];
  };
  EXPECT_EQ(start(0), sym::Expr(0));
  EXPECT_EQ(start(1), sym::Expr(4));
}

TEST(Rules, ARuleGoesOnAtWhatItMade) {
  constexpr Rule kRules[] = {{"flat", "Concat:c(.., Concat:d(ys..), ..)", "same_axis(c, d)",
                              "Concat[as(c)](.., ys.., ..)"}};
  Ops w;
  const ValueId inner = w.concat({w.x, w.y});
  w.result(w.concat({w.concat({w.y, inner}), w.x, w.concat({w.y})}));
  const RulesReport report = w.applied(kRules);
  EXPECT_EQ(text_of(report.graph), "Concat(y, x, y, x, y)");
  EXPECT_TRUE(report.graph.op(OpId(0)).name.starts_with(w.graph().op(OpId(3)).name + "."));
  EXPECT_EQ(report.by_rule.at("flat"), 3);
}

TEST(Rules, AnAbsentOperandIsMatchedAndMade) {
  constexpr Rule kRules[] = {{"back", "MatMul:m(Tanh(a), b, -)", "", "MatMul(a, b, -)"}};
  Ops w;
  const ValueId square = w.given("w", {6, 6}), bias = w.given("bias", {6});
  const ValueId t = w.op("Tanh", {w.x});
  w.result(w.op("MatMul", {t, square, ValueId::none()}));
  w.result(w.op("MatMul", {t, square, bias}));
  const RulesReport report = w.applied(kRules);
  EXPECT_EQ(report.by_rule.at("back"), 1);
  EXPECT_EQ(report.changed, 1);
}

TEST(Rules, ConditionsOfAFunctionAreAskedOfEveryMatch) {
  const auto applied = [](std::string_view conditions) {
    const Rule rules[] = {
        {.name = "second",
         .pattern = "Add:sum(a, b)",
         .conditions = conditions,
         .replacement = [](ir::GraphEdit& edit, OpId root) -> std::optional<ValueId> {
           return edit.op(root).inputs[1];
         }}};
    EXPECT_TRUE(check(rules[0]).has_value());
    Ops w;
    w.result(w.op("Exp", {w.op("Add", {w.x, w.y})}));
    w.result(w.op("Tanh", {w.x}));
    return text_of(w.applied(rules).graph);
  };
  EXPECT_EQ(applied("read_once(a)"), "Exp(y)");  // y, in the other order
  EXPECT_EQ(applied("several(a)"), "Exp(Add(x, y))");
  // Of what it made, too.
  EXPECT_EQ(applied("same_type(result, sum)"), "Exp(y)");
  EXPECT_EQ(applied("!same_type(result, sum)"), "Exp(Add(x, y))");
}

// ---- the rules over sums and products of TASO's release, as MAGIS applies them ----

// No list has them: algebra_rules() brings both sides of each into one canonical form. The others
// join products side by side: shared_operand_test.cc.
constexpr Rule kTaso[] = {
    {"R0", "Add(c, Add(c, Add(a, b)))", "", "Add(Add(a, c), Add(b, c))"},
    {"R1", "Add(c, Add(a, b))", "", "Add(b, Add(a, c))"},
    {"R2", "Add(Add(a, b), Add(b, c))", "", "Add(b, Add(b, Add(a, c)))"},
    {"R3", "Add(c, Add(c, Add(a, b)))", "", "Add(b, Add(c, Add(a, c)))"},
    {"R4", "Add(Add(a, c), Add(b, c))", "", "Add(c, Add(c, Add(a, b)))"},
    {"R5", "Add(c, Add(a, b))", "", "Add(a, Add(b, c))"},
    {"R6", "Add(Add(a, b), Add(a, c))", "", "Add(a, Add(a, Add(b, c)))"},
    {"R7", "Add(c, Add(c, Add(a, b)))", "", "Add(a, Add(c, Add(b, c)))"},
    {"R8", "Mul(c, Add(a, b))", "", "Add(Mul(c, a), Mul(c, b))"},
    {"R9", "Mul(c, Add(a, b))", "", "Add(Mul(a, c), Mul(c, b))"},
    {"R10", "Add(Mul(a, b), Mul(c, Mul(a, b)))", "", "Mul(b, Add(a, Mul(a, c)))"},
    {"R11", "Mul(d, Add(b, Mul(a, b)))", "", "Mul(b, Add(d, Mul(a, d)))"},
    {"R12", "Mul(c, Add(a, b))", "", "Add(Mul(c, a), Mul(b, c))"},
    {"R13", "Mul(c, Mul(c, Mul(a, b)))", "", "Mul(Mul(a, c), Mul(b, c))"},
    {"R14", "Mul(c, Mul(a, b))", "", "Mul(b, Mul(a, c))"},
    {"R15", "Mul(Mul(a, b), Mul(b, c))", "", "Mul(b, Mul(b, Mul(a, c)))"},
    {"R16", "Mul(c, Mul(c, Mul(a, b)))", "", "Mul(b, Mul(c, Mul(a, c)))"},
    {"R17", "Add(Mul(a, b), Mul(c, Mul(a, b)))", "", "Mul(a, Add(b, Mul(b, c)))"},
    {"R18", "Mul(d, Add(a, Mul(a, b)))", "", "Mul(a, Add(d, Mul(b, d)))"},
    {"R19", "Mul(c, Add(a, b))", "", "Add(Mul(a, c), Mul(b, c))"},
    {"R20", "Mul(Mul(a, c), Mul(b, c))", "", "Mul(c, Mul(c, Mul(a, b)))"},
    {"R21", "Mul(c, Mul(a, b))", "", "Mul(a, Mul(b, c))"},
    {"R22", "Mul(d, Add(b, Mul(a, b)))", "", "Add(Mul(b, d), Mul(a, Mul(b, d)))"},
    {"R23", "Mul(Mul(a, b), Mul(a, c))", "", "Mul(a, Mul(a, Mul(b, c)))"},
    {"R24", "Mul(c, Mul(c, Mul(a, b)))", "", "Mul(a, Mul(c, Mul(b, c)))"},
    {"R25", "Mul(Add(a, b), c)", "", "Add(Mul(c, a), Mul(c, b))"},
    {"R26", "Mul(Add(a, b), c)", "", "Add(Mul(a, c), Mul(b, c))"},
};

// The graph that a text without attributes describes, of given values with its names.
ir::Graph graph_of(const Pattern& text) {
  GraphWriter w;
  std::vector<ValueId> of_name(text.names.size()), made;
  for (const char* letter : {"a", "b", "c", "d"}) w.given(letter, {5});
  for (const Term& term : text.terms) {
    if (term.form == Term::Form::kOp) {
      std::vector<ValueId> inputs;
      for (size_t t : term.operands) inputs.push_back(made[t]);
      of_name[term.name] = w.op(term.kind, inputs);
    } else {
      of_name[term.name] = *w.graph().find_value(text.names[term.name].text);
    }
    made.push_back(of_name[term.name]);
  }
  w.result(made.back());
  return w.graph();
}

ir::Graph canonical(const ir::Graph& graph) {
  const auto report = apply_rules(graph, algebra_rules());
  EXPECT_TRUE(report.has_value());
  return report ? report->graph : ir::Graph();
}

void expect_close(const std::vector<double>& was, const std::vector<double>& is) {
  ASSERT_EQ(was.size(), is.size());
  ASSERT_FALSE(was.empty());
  for (size_t i = 0; i < was.size(); ++i)
    EXPECT_LE(std::abs(was[i] - is[i]), 1e-12 * std::max(1.0, std::abs(was[i])));
}

std::vector<double> elements(const ir::Graph& graph) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  context.seed_missing_inputs = true;
  const auto values = ref::interpret(graph, {}, context);
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  return values ? values->at(graph.outputs()[0]).f : std::vector<double>();
}

TEST(Rules, EachOfTasosIsARowAndFollowsFromTheCanonicalForm) {
  EXPECT_EQ(std::size(kTaso), 27U);
  for (const Rule& rule : kTaso) {
    SCOPED_TRACE(rule.name);
    const Pattern left = *parse_pattern(rule.pattern), right = *parse_pattern(rule.result);
    const ir::Graph before = graph_of(left);
    const OpId root = before.value(before.outputs()[0]).producer;
    const auto report = apply_rule_at(before, {&root, 1}, rule);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->by_rule.at(rule.name), 1);
    const ir::Graph after = graph_of(right);
    EXPECT_EQ(text_of(report->graph), text_of(after));
    const ir::Graph one = canonical(before);
    EXPECT_EQ(text_of(one), text_of(canonical(after)));
    EXPECT_LE(one.op_count(), std::min(before.op_count(), after.op_count()));
    const std::vector<double> was = elements(before);
    expect_close(was, elements(report->graph));
    expect_close(was, elements(one));
  }
}

}  // namespace
}  // namespace lowtide::rewrite
