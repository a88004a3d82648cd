#include "rewrite/round_trips.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "exec/ref/interpreter.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

struct Trips : GraphWriter {
  ValueId x = given("x", {2, 3, 4});
  ValueId typed(const char* name, DType type) {
    ir::Value value;
    value.name = name;
    value.dims = {2, 3, 4};
    value.dtype = type;
    value.category = Category::kInput;
    return graph_.add_value(std::move(value));
  }
  ValueId relu(ValueId v) { return op("Relu", {v}); }
  ValueId moved(ValueId v, ir::Dims perm) { return op("Transpose", {v}, {{"perm", perm}}); }
  ValueId viewed(ValueId v, ir::Dims perm) {
    return op("Transpose", {v}, {{"perm", perm}, {"view", int64_t{1}}});
  }
  ValueId expanded(ValueId v, ir::Dims shape) { return op("Expand", {v}, {{"shape", shape}}); }
  ValueId cast(ValueId v, const char* to) { return op("Cast", {v}, {{"to", std::string(to)}}); }
  // A row of x: a view that keeps all of it.
  ValueId row(ValueId v) {
    return op("Slice", {v}, {{"starts", ir::Dims{1, 0, 0}}, {"sizes", ir::Dims{1, 3, 4}}});
  }
  void read(ValueId v) { result(op("Tanh", {cast(v, "f32")})); }

  // How the first result is made, through first operands.
  static std::string made_by(const ir::Graph& graph) {
    std::string text;
    ValueId v = graph.outputs()[0];
    for (; graph.value(v).producer.valid(); v = graph.op(graph.value(v).producer).inputs[0])
      text += graph.op(graph.value(v).producer).kind + " ";
    return text + graph.value(v).name;
  }
  // After the rules; the results are the same, bit for bit.
  RulesReport applied() const {
    auto report = apply_rules(graph_, round_trip_rules());
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    if (!report) return {};
    ref::Context context;
    context.precision = ref::Precision::kF64;
    context.seed_missing_inputs = true;
    const auto was = ref::interpret(graph_, {}, context);
    const auto is = ref::interpret(report->graph, {}, context);
    EXPECT_TRUE(was.has_value() && is.has_value());
    if (was && is)
      for (ValueId v : graph_.outputs()) {
        const auto now = report->graph.find_value(graph_.value(v).name);
        EXPECT_TRUE(now.has_value());
        EXPECT_TRUE(now && was->at(v) == is->at(*now));
      }
    return *report;
  }
  std::string after() const { return made_by(applied().graph); }
};

TEST(RoundTrips, TwoTransposesAreOneOrNone) {
  {
    Trips w;
    w.result(w.relu(w.moved(w.moved(w.x, {2, 0, 1}), {1, 2, 0})));
    EXPECT_EQ(w.after(), "Relu x");
  }
  Trips w;
  w.result(w.moved(w.moved(w.x, {2, 0, 1}), {2, 1, 0}));
  const RulesReport report = w.applied();
  EXPECT_EQ(report.by_rule.at("transpose-of-transpose"), 1);
  ASSERT_EQ(report.graph.op_count(), 1U);
  EXPECT_EQ(std::get<ir::Dims>(report.graph.op(ir::OpId(0)).attrs.at("perm")), (ir::Dims{1, 0, 2}));
}

TEST(RoundTrips, TransposesStay) {
  {
    Trips w;  // somebody else reads the inner one
    const ValueId inner = w.moved(w.x, {2, 0, 1});
    w.result(w.relu(w.moved(inner, {2, 1, 0})));
    w.result(w.op("Exp", {inner}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Trips w;  // x is a part of more than itself, which would stay for it
    const ValueId part = w.row(w.relu(w.x));
    w.result(w.relu(w.moved(w.moved(part, {2, 0, 1}), {1, 2, 0})));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Trips w;  // a strided view is no copy: the inner one, the outer one, or the only one
    w.result(w.relu(w.moved(w.viewed(w.x, {2, 0, 1}), {1, 2, 0})));
    w.result(w.relu(w.viewed(w.moved(w.x, {2, 0, 1}), {2, 1, 0})));
    w.result(w.relu(w.viewed(w.x, {0, 1, 2})));
    EXPECT_EQ(w.applied().changed, 0);
  }
}

TEST(RoundTrips, WhatChangesNothingIsNothing) {
  Trips w;
  w.result(w.relu(w.moved(w.x, {0, 1, 2})));
  EXPECT_EQ(w.after(), "Relu x");
  Trips e;
  e.result(e.relu(e.expanded(e.x, {2, 3, 4})));
  EXPECT_EQ(e.after(), "Relu x");
  Trips c;
  c.result(c.relu(c.cast(c.x, "f32")));
  EXPECT_EQ(c.after(), "Relu x");
  // Of a part of more than itself, which would stay for it, they are copies.
  Trips part;
  const ValueId p = part.row(part.relu(part.x));
  part.result(part.relu(part.expanded(p, {1, 3, 4})));
  part.result(part.relu(part.moved(p, {0, 1, 2})));
  part.result(part.relu(part.cast(p, "f32")));
  EXPECT_EQ(part.applied().changed, 0);
  Trips more;
  more.result(more.relu(more.expanded(more.row(more.x), {2, 3, 4})));
  more.result(more.relu(more.moved(more.x, {1, 0, 2})));
  EXPECT_EQ(more.applied().changed, 0);
}

// To a type and back to its own: whether that loses nothing.
TEST(RoundTrips, CastsBackAreNothingWhereAllOfATypeIsHeld) {
  const struct {
    DType type;
    const char* there;
    bool goes;
  } cases[] = {
      {DType::kF32, "f64", true},   {DType::kF32, "f16", false},  {DType::kF32, "bf16", false},
      {DType::kF32, "i64", false},  {DType::kF16, "f32", true},   {DType::kF16, "bf16", false},
      {DType::kBF16, "f32", true},  {DType::kBF16, "f16", false}, {DType::kBool, "i64", true},
      {DType::kBool, "f16", true},  {DType::kBool, "u8", true},   {DType::kI32, "i64", true},
      {DType::kI32, "f64", true},   {DType::kI32, "f32", false},  {DType::kI32, "u64", false},
      {DType::kI32, "bool", false}, {DType::kI64, "f64", false},  {DType::kI64, "i32", false},
      {DType::kU8, "i8", false},    {DType::kU8, "i16", true},    {DType::kU8, "bf16", true},
      {DType::kU16, "f16", false},  {DType::kU16, "f32", true},   {DType::kU32, "i64", true},
      {DType::kU32, "i32", false},  {DType::kU64, "i64", false},  {DType::kI8, "f16", true},
  };
  for (const auto& c : cases) {
    Trips w;
    const ValueId v = w.typed("v", c.type);
    w.read(w.cast(w.cast(v, c.there), std::string(name(c.type)).c_str()));
    SCOPED_TRACE(std::string(name(c.type)) + " " + c.there);
    EXPECT_EQ(w.applied().by_rule.contains("cast-back"), c.goes);
  }
}

TEST(RoundTrips, CastsOnAreOne) {
  Trips w;
  w.result(w.op("Tanh", {w.cast(w.cast(w.typed("mask", DType::kBool), "i64"), "f32")}));
  EXPECT_EQ(w.after(), "Tanh Cast mask");
  Trips up;
  up.result(up.op("Tanh", {up.cast(up.cast(up.typed("h", DType::kF16), "f32"), "f64")}));
  EXPECT_EQ(up.after(), "Tanh Cast h");
}

TEST(RoundTrips, CastsStay) {
  {
    Trips w;  // an integer as a float may be rounded otherwise
    w.result(w.op("Tanh", {w.cast(w.cast(w.typed("n", DType::kI32), "f64"), "f32")}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Trips w;  // the inner one loses bits
    w.result(w.op("Tanh", {w.cast(w.cast(w.x, "f16"), "f64")}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Trips w;  // somebody else reads the inner one, which would stay beside x
    const ValueId inner = w.cast(w.x, "f64");
    w.result(w.op("Tanh", {w.cast(inner, "f32")}));
    w.result(w.op("Exp", {inner}));
    EXPECT_EQ(w.applied().changed, 0);
  }
  {
    Trips w;  // x is a part of more than itself
    w.result(w.op("Tanh", {w.cast(w.cast(w.row(w.relu(w.x)), "f64"), "f32")}));
    const ValueId half = w.row(w.cast(w.x, "f16"));
    w.result(w.op("Tanh", {w.cast(w.cast(half, "f32"), "f64")}));
    EXPECT_EQ(w.applied().changed, 0);
  }
}

// A control edge to or from the inner one would be lost with it.
TEST(RoundTrips, WhatControlEdgesNameStays) {
  for (const bool from_it : {false, true}) {
    Trips w;
    const ValueId before = w.op("Exp", {w.x}), inner = w.cast(w.x, "f64");
    w.result(w.op("Tanh", {w.cast(inner, "f32")}));
    const ValueId behind = w.op("Exp", {before});
    w.result(behind);
    const auto maker = [&](ValueId v) { return w.graph().value(v).producer; };
    if (from_it)
      w.graph().add_control(maker(inner), maker(behind));
    else
      w.graph().add_control(maker(before), maker(inner));
    EXPECT_EQ(w.applied().changed, 0);
  }
}

// The outer one is written into a larger value, whose other rows come behind it.
TEST(RoundTrips, WhatIsWrittenIntoAWholeStays) {
  Trips w;
  const auto into = [](int64_t begin, int64_t end) { return ir::Dims{0, begin, end, 5}; };
  const ValueId rows = w.op("Transpose", {w.moved(w.x, {2, 0, 1})},
                            {{"perm", ir::Dims{2, 1, 0}}, {"into", into(0, 3)}});
  w.result(w.op("Tanh", {w.given("y", {2, 2, 4}), rows}, {{"into", into(3, 5)}}));
  EXPECT_EQ(w.applied().changed, 0);
}

// An op that reads what is overwritten has to run before that; a copy may be read later.
TEST(RoundTrips, CopiesOfWhatIsOverwrittenStay) {
  for (const bool are_read_first : {false, true}) {
    Trips w;
    const ValueId p = w.given("p", {2, 3, 4}, Category::kParameter);
    const ValueId copies[] = {w.expanded(p, {2, 3, 4}),
                              w.moved(p, {0, 1, 2}),
                              w.moved(w.moved(p, {2, 0, 1}), {1, 2, 0}),
                              w.cast(p, "f32"),
                              w.cast(w.cast(p, "f64"), "f32"),
                              w.cast(w.cast(p, "f64"), "f16")};
    const auto read_all = [&] {
      for (const ValueId copy : copies) w.result(w.op("Tanh", {copy}));
    };
    if (are_read_first) read_all();
    w.result(w.op("SgdUpdate", {p, w.relu(w.x), ValueId::none()},
                  {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}}));
    if (!are_read_first) read_all();
    const auto report = apply_rules(w.graph(), round_trip_rules());
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->changed, 0);
  }
}

TEST(RoundTrips, ResultsOfTheStepKeepTheirNames) {
  Trips w;
  w.result(w.expanded(w.x, {2, 3, 4}));
  EXPECT_EQ(w.applied().changed, 0);  // x is an input, and no result
}

}  // namespace
}  // namespace lowtide::rewrite
