#include "fission/rules.h"

#include <gtest/gtest.h>

#include <utility>

#include "fission/classes.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

ir::Graph product() {
  ir::Graph graph;
  ir::Value a, b;
  a.name = "a", a.dims = {7, 3};
  b.name = "b", b.dims = {3, 5};
  const ir::ValueId left = graph.add_value(std::move(a)), right = graph.add_value(std::move(b));
  ops::AppendOptions options;
  options.name = "layer.product";
  const auto made = ops::append(graph, "MatMul", {left, right}, {}, options);
  graph.set_output(graph.op(*made).outputs[0], true);
  return graph;
}

TEST(CutRules, SayOpsAxisAndParts) {
  EXPECT_EQ(parse_rule("a:b*:m:4").value(), (CutRule{"a:b*", "m", 4}));
  EXPECT_EQ(print(CutRule{"a:b*", "m", 4}), "a:b*:m:4");
  EXPECT_EQ(parse_rule("a:m*:4").value(), (CutRule{"a", "m", 4, true}));
  EXPECT_EQ(print(CutRule{"a", "m", 4, true}), "a:m*:4");
  EXPECT_EQ(parse_rule("a:m*:4>64").value(), (CutRule{"a", "m", 4, true, 64}));
  EXPECT_EQ(print(CutRule{"a", "m", 4, true, 64}), "a:m*:4>64");
  const CutRule alone{.ops = "a", .axis = "m", .parts = 4, .whole_class = true, .instead = true};
  EXPECT_EQ(parse_rule("a:m*:4!").value(), alone);
  EXPECT_EQ(print(alone), "a:m*:4!");
  for (const char* wrong :
       {"!", "a:m:!", "a:m:4!!", "", "a:*:4", "m:4", "a:m", "a:m:1", "a:m:x", "a::4", ":m:4",
        "a:m:4x", "a:m:4>64", "a:m*:4>", "a:m*:4>-1", "a:m*:4>64x"}) {
    const auto refused = parse_rule(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  }
}

TEST(CutRules, GivePartsThatAreAsEqualAsTheyCanBe) {
  const ir::Graph graph = product();
  const CutRule rule{"layer*", "m", 3};
  const Cuts cuts = cuts_of(graph, {&rule, 1}).value().front();
  EXPECT_EQ(cuts[ir::OpId(0)]->bounds, (std::vector<int64_t>{0, 3, 5, 7}));
  const auto expanded = expand(graph, cuts);
  ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
  EXPECT_EQ(expanded->parts[ir::OpId(0)].size(), 3U);
  EXPECT_EQ(expanded->graph.op_count(), 7U)
      << "three slices, which are views, three products and one Concat";
}

// Rules along two axes hold together, the first outermost; a third axis is one too many, and a rule
// with "!" takes the place of those before it.
TEST(CutRules, AlongTwoAxesOfAnOpHoldTogether) {
  const ir::Graph graph = product();
  const ir::OpId op(0);
  const CutRule rows{"layer*", "m", 3}, columns{"layer*", "n", 2}, sum{"layer*", "k", 3};
  const std::vector<CutRule> both = {rows, columns};
  const NestedCuts cuts = cuts_of(graph, both).value();
  ASSERT_EQ(cuts.size(), 2U);
  EXPECT_EQ(cuts[0][op]->bounds, (std::vector<int64_t>{0, 3, 5, 7}));
  EXPECT_EQ(cuts[1][op]->bounds, (std::vector<int64_t>{0, 3, 5}));
  const auto expanded = expand(graph, cuts);
  ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
  ASSERT_EQ(expanded->parts[op].size(), 6U);
  EXPECT_EQ(expanded->graph.op(expanded->parts[op][3]).name, "layer.product/part1/part1");
  EXPECT_EQ(expanded->stretches[op][3].begin,
            Stretch::kLoop * 3 / 7 + (Stretch::kLoop * 5 / 7 - Stretch::kLoop * 3 / 7) *
                                         (Stretch::kLoop * 3 / 5) / Stretch::kLoop);
  const auto error_of = [&](const std::vector<CutRule>& rules) {
    return cuts_of(graph, rules).error().message;
  };
  EXPECT_EQ(error_of({rows, columns, sum}),
            "cut layer*:k:3: op 'layer.product': is cut along 2 axes already, which is the most");
  CutRule alone = sum;
  alone.instead = true;
  const NestedCuts one = cuts_of(graph, std::vector<CutRule>{rows, columns, alone}).value();
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0][op]->axis, 1);
  // What comes behind it holds together with it, in place of a third axis.
  const NestedCuts behind = cuts_of(graph, std::vector<CutRule>{rows, alone, columns}).value();
  ASSERT_EQ(behind.size(), 2U);
  EXPECT_EQ(behind[0][op]->axis, 1);
  EXPECT_EQ(behind[1][op]->bounds.size(), 3U);
  // Of one axis the later rule decides; the other stays.
  const CutRule more{"layer*", "m", 7};
  const NestedCuts finer = cuts_of(graph, std::vector<CutRule>{rows, columns, more}).value();
  EXPECT_EQ(finer[0][op]->bounds.size(), 8U);
  EXPECT_EQ(finer[1][op]->bounds.size(), 3U);
}

// Labels are outermost; of one axis the more parts are taken, theirs or the rule's.
TEST(CutRules, HoldTogetherWithLabels) {
  const ir::Graph graph = product();
  const ir::OpId op(0);
  Cuts labels(graph.op_count());
  labels[op] = Cut{0, {0, 2, 4, 7}};
  const auto with = [&](const CutRule& rule) { return cuts_of(graph, {&rule, 1}, labels).value(); };
  const NestedCuts columns = with({"layer*", "n", 2});
  EXPECT_EQ(columns[0][op], labels[op]);
  EXPECT_EQ(columns[1][op]->bounds.size(), 3U);
  EXPECT_EQ(with({"layer*", "m", 2})[0][op], labels[op]);
  EXPECT_EQ(with({"layer*", "m", 5})[0][op]->bounds.size(), 6U);
  // The labels' parts are not forgotten behind a finer rule and a coarser one.
  const std::vector<CutRule> both = {{"layer*", "m", 5}, {"layer*", "m", 2}};
  EXPECT_EQ(cuts_of(graph, both, labels).value()[0][op], labels[op]);
  const NestedCuts alone = with({.ops = "layer*", .axis = "n", .parts = 2, .instead = true});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0][op]->bounds.size(), 3U);
  // In place of labels means for the rules behind it, too: of those the later one decides.
  const CutRule finest{.ops = "layer*", .axis = "m", .parts = 5, .instead = true};
  const std::vector<CutRule> behind = {finest, {"layer*", "m", 2}};
  const NestedCuts two = cuts_of(graph, behind, labels).value();
  ASSERT_EQ(two.size(), 1U);
  EXPECT_EQ(two[0][op]->bounds, (std::vector<int64_t>{0, 4, 7}));
}

// Rows of the first product are rows of the second, its columns what the second sums over.
TEST(CutRules, OfAClassSpeakOfAllItsOps) {
  ir::Graph graph = product();
  ir::Value c;
  c.name = "c", c.dims = {5, 4};
  const ir::ValueId right = graph.add_value(std::move(c));
  ops::AppendOptions options;
  options.name = "second";
  const auto made = ops::append(graph, "MatMul", {graph.outputs()[0], right}, {}, options);
  graph.set_output(graph.op(*made).outputs[0], true);
  const auto cut_along = [&](const char* axis) {
    const CutRule rule{"layer*", axis, 2, true};
    return cuts_of(graph, {&rule, 1}).value().front();
  };
  EXPECT_EQ(cut_along("m")[ir::OpId(1)]->bounds, (std::vector<int64_t>{0, 4, 7}));
  EXPECT_EQ(cut_along("n")[ir::OpId(1)]->bounds, (std::vector<int64_t>{0, 3, 5}));
  const CutRule large{"layer*", "m", 2, true, 7 * 5 * 4};  // what the first makes, in bytes
  EXPECT_TRUE(cuts_of(graph, {&large, 1}).value().front()[ir::OpId(0)]);
  EXPECT_FALSE(cuts_of(graph, {&large, 1}).value().front()[ir::OpId(1)]);
  EXPECT_FALSE(cut_along("k")[ir::OpId(1)]);
  EXPECT_TRUE(cut_along("k")[ir::OpId(0)]);
}

// Samples are the first dimension of what is fed; what is seeded has none.
TEST(AxisClasses, WalkSamplesWhereTheFirstDimensionIsFed) {
  ir::Graph graph;
  const auto given = [&](const char* name, ir::Dims dims, ir::InitialValue::Kind kind) {
    ir::Value value;
    value.name = name, value.dims = std::move(dims), value.initial.kind = kind;
    return graph.add_value(std::move(value));
  };
  const auto fed = given("x", {7, 3}, ir::InitialValue::Kind::kFed);
  const auto first = given("w0", {3, 5}, ir::InitialValue::Kind::kSeeded);
  const auto second = given("w1", {5, 4}, ir::InitialValue::Kind::kSeeded);
  const auto hidden = ops::append(graph, "MatMul", {fed, first}, {}, {});
  const auto made = ops::append(graph, "MatMul", {graph.op(*hidden).outputs[0], second}, {}, {});
  graph.set_output(graph.op(*made).outputs[0], true);
  const auto classes = axis_classes(graph).value();
  ASSERT_EQ(classes.size(), 2U);
  int of_samples = 0;
  for (const AxisClass& axis_class : classes) {
    const bool walks = walks_samples(graph, axis_class).value();
    EXPECT_EQ(walks, axis_class.least_extent == 7) << axis_class.least_extent;
    of_samples += walks;
  }
  EXPECT_EQ(of_samples, 1);
}

TEST(CutRules, NameTheOpWhoseAxisIsNotThere) {
  const ir::Graph graph = product();
  const auto message = [&](const CutRule& rule) {
    return cuts_of(graph, {&rule, 1}).error().message;
  };
  EXPECT_EQ(message({"layer*", "x", 2}),
            "cut layer*:x:2: op 'layer.product' (MatMul) cannot be cut along x; it can be along m "
            "(7), k (3), n (5)");
  EXPECT_EQ(message({"layer*", "k", 4}),
            "cut layer*:k:4: axis k of op 'layer.product' has extent 3, too few for 4 parts");
  EXPECT_EQ(message({"head", "m", 2}), "cut head:m:2: no op has a name like 'head'");
}

}  // namespace
}  // namespace lowtide::fission
