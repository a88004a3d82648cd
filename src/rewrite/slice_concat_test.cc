#include "rewrite/slice_concat.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

// Columns of matrices: cut out of them, they are copies; rows are views.
struct Cuts : GraphWriter {
  ValueId x = given("x", {4, 12});
  ValueId relu(ValueId v) { return op("Relu", {v}); }
  ValueId columns(ValueId v, int64_t begin, int64_t size, int64_t step = 1) {
    return cut(v, {0, begin}, {graph_.value(v).dims[0], size}, step);
  }
  ValueId rows(ValueId v, int64_t begin, int64_t size) {
    return cut(v, {begin, 0}, {size, graph_.value(v).dims[1]}, 1);
  }
  ValueId concat(std::vector<ValueId> parts, int64_t axis = 1) {
    return op("Concat", std::move(parts), {{"axis", axis}});
  }
  RulesReport applied() const {
    auto report = apply_rules(graph_, slice_concat_rules());
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    return report ? *report : RulesReport{};
  }
  // "Relu(Slice(x))": how the first result of the step is made, through first operands.
  static std::string made_by(const ir::Graph& graph) {
    std::string text;
    ValueId v = graph.outputs()[0];
    while (graph.value(v).producer.valid()) {
      const ir::Op& op = graph.op(graph.value(v).producer);
      text += (text.empty() ? "" : " ") + op.kind + std::to_string(op.inputs.size());
      v = op.inputs[0];
    }
    return text + " " + graph.value(v).name;
  }

 private:
  ValueId cut(ValueId v, ir::Dims starts, ir::Dims sizes, int64_t step) {
    return op("Slice", {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", ir::Dims{1, step}}});
  }
};

TEST(SliceConcat, SlicesThatAreTheWholeAgainAreIt) {
  for (const bool rows : {false, true}) {
    Cuts w;
    const ValueId e = w.relu(w.x);
    const ValueId whole =
        rows ? w.concat({w.rows(e, 0, 1), w.rows(e, 1, 2), w.rows(e, 3, 1)}, 0)
             : w.concat({w.columns(e, 0, 5), w.columns(e, 5, 1), w.columns(e, 6, 6)});
    w.result(w.op("Tanh", {whole}));
    const RulesReport report = w.applied();
    EXPECT_EQ(Cuts::made_by(report.graph), "Tanh1 Relu1 x");
    EXPECT_EQ(report.changed, 4);
    EXPECT_EQ(report.by_rule.at("concat-of-slices"), 1);
  }
}

// Three rows of four: a view would keep all four where the Concat kept three.
TEST(SliceConcat, ACopyDoesNotBecomeAViewOfMore) {
  Cuts w;
  const ValueId e = w.relu(w.x);
  w.result(w.op("Tanh", {w.concat({w.rows(e, 1, 1), w.rows(e, 2, 2)}, 0)}));
  EXPECT_EQ(w.applied().changed, 0);
}

TEST(SliceConcat, SlicesInOrderAmongOthersAreOne) {
  Cuts w;
  const ValueId e = w.relu(w.x);
  w.result(w.op("Tanh", {w.concat({w.columns(e, 2, 3), w.columns(e, 5, 1), w.x})}));
  const RulesReport report = w.applied();
  EXPECT_EQ(Cuts::made_by(report.graph), "Tanh1 Concat2 Slice1 Relu1 x");
}

// What is made on the way to a result of the backward pass is no activation.
TEST(SliceConcat, InTheBackwardPassSlicesAreTemporaries) {
  Cuts w;
  const ValueId e = w.relu(w.x);
  const std::vector<ValueId> parts = {w.columns(e, 2, 3), w.columns(e, 5, 1), w.x};
  ops::AppendOptions backward;
  backward.phase = Phase::kBackward;
  backward.category = Category::kTemporary;
  const auto joined =
      ops::append(w.graph(), "Concat", parts, {{"axis", int64_t{1}}}, backward).value();
  w.result(w.graph().op(joined).outputs[0]);
  const ir::Graph made = w.applied().graph;
  EXPECT_EQ(Cuts::made_by(made), "Concat2 Slice1 Relu1 x");
  for (const ir::OpId id : made.ops()) {
    const bool is_backward = made.op(id).phase == Phase::kBackward;
    EXPECT_EQ(is_backward, made.op(id).kind != "Relu");
    EXPECT_EQ(made.value(made.op(id).outputs[0]).category,
              is_backward ? Category::kTemporary : Category::kActivation);
  }
}

TEST(SliceConcat, SlicesThatDoNotFollowOrAreReadElsewhereStay) {
  {
    Cuts w;
    w.result(w.op("Tanh", {w.concat({w.columns(w.x, 6, 6), w.columns(w.x, 0, 6)})}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;
    const ValueId first = w.columns(w.x, 0, 6);
    w.result(w.op("Tanh", {w.concat({first, w.columns(w.x, 6, 6)})}));
    w.result(w.op("Tanh", {first}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;  // of different values, and with a step
    const ValueId e = w.relu(w.x);
    w.result(w.op("Tanh", {w.concat({w.columns(w.x, 0, 6), w.columns(e, 6, 6)})}));
    w.result(w.op("Tanh", {w.concat({w.columns(w.x, 0, 3, 2), w.columns(w.x, 6, 3, 2)})}));
    EXPECT_EQ(w.applied().changed, 0);
  }
}

TEST(SliceConcat, ASliceOfASliceIsOne) {
  Cuts w;
  const ValueId inner = w.columns(w.x, 1, 5, 2);
  w.result(w.columns(inner, 1, 2, 2));
  const std::string name = w.graph().value(w.graph().outputs()[0]).name;
  const RulesReport report = w.applied();
  EXPECT_EQ(report.changed, 2);
  ASSERT_EQ(report.graph.op_count(), 1U);
  const ir::Op& made = report.graph.op(ir::OpId(0));
  EXPECT_EQ(std::get<ir::Dims>(made.attrs.at("starts")), (ir::Dims{0, 3}));
  EXPECT_EQ(std::get<ir::Dims>(made.attrs.at("sizes")), (ir::Dims{4, 2}));
  EXPECT_EQ(std::get<ir::Dims>(made.attrs.at("steps")), (ir::Dims{1, 4}));
  EXPECT_EQ(report.graph.value(report.graph.outputs()[0]).name, name);
}

TEST(SliceConcat, ASliceOfASliceStaysWhereTheOuterOneIsAViewOrTheInnerOneIsRead) {
  {
    Cuts w;  // rows of some columns are a view on these, which goes
    const ValueId few = w.columns(w.relu(w.x), 0, 2);
    w.result(w.op("Tanh", {w.rows(few, 1, 2)}));
    const RulesReport report = w.applied();
    EXPECT_EQ(report.by_rule.count("slice-of-slice"), 1U);
  }
  {
    Cuts w;  // of a row, an element is a view, which would keep all of it
    const ValueId row = w.relu(w.given("row", {1, 12}));
    w.result(w.op("Tanh", {w.columns(w.columns(row, 0, 6, 2), 2, 1)}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;
    const ValueId inner = w.columns(w.x, 1, 5);
    w.result(w.op("Tanh", {w.columns(inner, 1, 2)}));
    w.result(w.op("Exp", {inner}));
    EXPECT_EQ(w.applied().changed, 0);
  }
}

TEST(SliceConcat, ASliceOfAJoinedValueIsOneOfIt) {
  for (const bool part : {false, true}) {
    Cuts w;
    const ValueId a = w.relu(w.x), b = w.op("Exp", {w.x});
    const ValueId both = w.concat({a, b});
    w.result(w.op("Tanh", {w.columns(both, part ? 14 : 12, part ? 3 : 12)}));
    w.result(w.op("Sigmoid", {w.columns(both, 0, 12)}));
    const RulesReport report = w.applied();
    EXPECT_EQ(report.by_rule.at("slice-of-concat"), 2);
    EXPECT_EQ(Cuts::made_by(report.graph), part ? "Tanh1 Slice1 Exp1 x" : "Tanh1 Exp1 x");
    EXPECT_EQ(report.graph.op_count(), part ? 5U : 4U);
  }
}

TEST(SliceConcat, ASliceOfAJoinedValueStaysWhereThatIsNeeded) {
  {
    Cuts w;  // of a view, which would keep all of what it shows a part of
    const ValueId row = w.rows(w.relu(w.x), 1, 1);
    w.result(w.columns(w.concat({row, row}), 2, 4));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;  // across two of its operands
    w.result(w.op("Tanh", {w.columns(w.concat({w.relu(w.x), w.x}), 10, 4)}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;
    const ValueId both = w.concat({w.relu(w.x), w.x});
    w.result(w.op("Tanh", {w.columns(both, 0, 4)}));
    w.result(w.op("Exp", {both}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Cuts w;  // a result of the step
    const ValueId both = w.concat({w.relu(w.x), w.x});
    w.result(w.op("Tanh", {w.columns(both, 0, 4)}));
    w.result(both);
    EXPECT_EQ(w.applied().changed, 0);
  }
}

TEST(SliceConcat, JoinedValuesAreJoinedOnce) {
  Cuts w;
  const ValueId inner = w.concat({w.relu(w.x), w.x});
  w.result(w.op("Tanh", {w.concat({w.op("Exp", {w.x}), inner})}));
  const ValueId other = w.concat({w.concat({w.relu(w.x)}), w.relu(w.x)}, 0);
  w.result(w.op("Tanh", {other}));
  const RulesReport report = w.applied();
  EXPECT_EQ(report.by_rule.at("concat-of-concat"), 1);
  EXPECT_EQ(report.by_rule.at("concat-of-one"), 1);
  EXPECT_EQ(Cuts::made_by(report.graph), "Tanh1 Concat3 Exp1 x");
}

TEST(SliceConcat, AWholeSliceIsNothing) {
  Cuts w;
  w.result(w.op("Tanh", {w.columns(w.relu(w.x), 0, 12)}));
  EXPECT_EQ(Cuts::made_by(w.applied().graph), "Tanh1 Relu1 x");
}

// What is copied is trained; the original stays as it is.
TEST(SliceConcat, AnUpdateOfACopyStaysOne) {
  Cuts w;
  const ValueId p = w.given("p", {4, 12}, Category::kParameter);
  w.result(w.op("SgdUpdate", {w.concat({p}), w.relu(w.x), ValueId::none()},
                {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}}));
  EXPECT_EQ(w.applied().changed, 0);
}

TEST(SliceConcat, ResultsOfTheStepKeepTheirNames) {
  Cuts w;
  const ValueId whole = w.concat({w.columns(w.x, 0, 6), w.columns(w.x, 6, 6)});
  w.result(whole);
  EXPECT_EQ(w.applied().changed, 0);  // x is an input, and no result
}

}  // namespace
}  // namespace lowtide::rewrite
