#include "rewrite/common_ops.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

struct Twins : GraphWriter {
  ValueId constant(const std::string& name, const std::string& bytes) {
    ir::Value value;
    value.name = name;
    value.dims = {static_cast<int64_t>(bytes.size() / 4)};
    value.category = Category::kInput;
    value.initial.kind = ir::InitialValue::Kind::kInline;
    value.initial.bytes = bytes;
    return graph_.add_value(std::move(value));
  }
  ValueId mask(int64_t n, double number = 1) {
    const ValueId ones =
        op("Fill", {}, {{"shape", ir::Dims{n, n}}, {"value", number}, {"dtype", "f32"}});
    return op("Trilu", {ones}, {{"upper", int64_t{0}}, {"k", int64_t{0}}});
  }
  CommonOpsReport merged(const CommonOpsOptions& options = {.alignment_bytes = 64}) const {
    auto report = merge_common_ops(graph_, options);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    return report ? *report : CommonOpsReport{};
  }
  int64_t removed(bool even_if_longer = false) const {
    return merged({.alignment_bytes = 64, .even_if_longer = even_if_longer}).removed;
  }
};

// a = Exp(x), then much else, then b = Exp(x): as one, a lives longer.
TEST(CommonOps, AResultThatWouldLiveLongerStaysTwo) {
  Twins w;
  const ValueId x = w.given("x", {16});
  const ValueId first = w.op("Tanh", {w.op("Exp", {x})});
  w.result(w.op("Add", {w.op("Exp", {x}), first}));
  EXPECT_EQ(w.removed(), 0);
  EXPECT_EQ(w.removed(/*even_if_longer=*/true), 1);
}

TEST(CommonOps, ResultsThatAreThereTogetherAreOne) {
  Twins w;
  const ValueId x = w.given("x", {16});
  const ValueId a = w.op("Exp", {x}), b = w.op("Exp", {x});
  const ValueId sum = w.op("Add", {a, b});
  w.result(sum);
  const CommonOpsReport report = w.merged();
  EXPECT_EQ(report.merged, 1);
  EXPECT_EQ(report.removed, 1);
  const ir::Graph& after = report.graph;
  const ValueId kept = after.find_value(w.graph().value(a).name).value();
  const ir::Op& reader = after.op(after.value(after.outputs()[0]).producer);
  EXPECT_EQ(reader.inputs, (std::vector<ValueId>{kept, kept}));
  EXPECT_FALSE(after.find_value(w.graph().value(b).name));
}

// Each is kept for a reader that comes behind whatever makes the other.
TEST(CommonOps, MasksKeptForABackwardPassAreOne) {
  Twins w;
  const int layers = 12;
  ValueId x = w.given("x", {8, 8});
  std::vector<ValueId> masks;
  for (int layer = 0; layer < layers; ++layer) {
    masks.push_back(w.mask(8));
    x = w.op("Exp", {w.op("Mul", {x, masks.back()})});
  }
  for (int layer = layers; layer-- > 0;)
    x = w.op("Tanh", {w.op("Mul", {x, masks[static_cast<size_t>(layer)]})});
  w.result(x);
  const CommonOpsReport report = w.merged();
  EXPECT_EQ(report.merged, layers - 1);
  EXPECT_EQ(report.removed, 2 * (layers - 1));
  EXPECT_TRUE(ir::check(report.graph).has_value());
}

TEST(CommonOps, ResultsSmallerThanWhatTheyFreeAreOne) {
  for (const bool shared : {false, true}) {
    Twins w;
    const ValueId x = w.given("x", {64, 64});
    const ValueId large = w.op("Exp", {x});
    const ir::Attrs rows = {{"axes", ir::Dims{1}}, {"keepdims", int64_t{0}}};
    const ValueId first = w.op("Tanh", {w.op("ReduceSum", {large}, rows)});
    const ValueId second = w.op("ReduceSum", {large}, rows);
    w.result(w.op("Add", {first, second}));
    if (shared) w.result(large);
    EXPECT_EQ(w.removed(), shared ? 0 : 1);
  }
}

TEST(CommonOps, ViewsOfOneBaseAreOneAndThenWhatReadsThem) {
  Twins w;
  const ValueId x = w.given("x", {4, 4});
  const ir::Attrs flat = {{"shape", ir::Dims{16}}};
  const ValueId a = w.op("Exp", {w.op("Reshape", {x}, flat)});
  const ValueId b = w.op("Exp", {w.op("Reshape", {x}, flat)});
  w.result(w.op("Sub", {w.op("Tanh", {a}), w.op("Sigmoid", {b})}));
  w.result(w.op("Mul", {a, b}));
  EXPECT_EQ(w.removed(), 2);
}

TEST(CommonOps, NumbersAreEqualWhenTheirBitsAre) {
  Twins w;
  const ValueId zero = w.mask(4, 0.0), minus = w.mask(4, -0.0), one = w.mask(4, 1.0);
  w.result(w.op("Add", {w.op("Add", {zero, minus}), one}));
  EXPECT_EQ(w.removed(/*even_if_longer=*/true), 0);
}

TEST(CommonOps, WhatIsRandomReturnedOverwrittenOrOrderedStays) {
  const auto twice = [](Twins& w, std::string_view kind, const ir::Attrs& attrs) {
    const ValueId x = w.given("x", {8});
    const ValueId a = w.op(kind, {x}, attrs), b = w.op(kind, {x}, attrs);
    return std::pair(a, b);
  };
  {
    Twins w;
    const auto [a, b] = twice(w, "Dropout", {{"ratio", 0.5}, {"stream", int64_t{1}}});
    w.result(w.op("Add", {a, b}));
    EXPECT_EQ(w.removed(true), 0);
  }
  {
    Twins w;
    const auto [a, b] = twice(w, "Exp", {});
    w.result(a);
    w.result(b);
    EXPECT_EQ(w.removed(true), 0);
  }
  {
    Twins w;
    const auto [a, b] = twice(w, "Exp", {});
    w.result(w.op("Add", {a, b}));
    w.graph().add_control(w.graph().value(a).producer, w.graph().value(b).producer);
    EXPECT_EQ(w.removed(true), 0);
  }
  {
    Twins w;
    const auto [a, b] = twice(w, "Exp", {});
    const ValueId kept = w.op("Tanh", {b});
    w.result(w.op("SgdUpdate", {a, kept, ValueId::none()},
                  {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}}));
    EXPECT_EQ(w.removed(true), 0);
  }
}

TEST(CommonOps, EqualConstantsAreOneAndParametersAreNot) {
  Twins w;
  const ValueId x = w.given("x", {2});
  const ValueId p = w.given("p", {2}, Category::kParameter);
  const ValueId q = w.given("q", {2}, Category::kParameter);
  ValueId sum = w.op("Add", {x, w.op("Add", {p, q})});
  for (const char* bytes : {"12345678", "12345678", "1234567", "12345679", "12345678"})
    sum = w.op("Add", {sum, w.constant(w.graph().fresh_name("c"), std::string(bytes, 8))});
  w.result(sum);
  const CommonOpsReport report = w.merged();
  EXPECT_EQ(report.constants, 2);
  EXPECT_EQ(report.removed, 0);
  EXPECT_EQ(report.graph.value_count(), w.graph().value_count() - 2);
}

TEST(CommonOps, TheWorkLimitLeavesWhatIsLeft) {
  Twins w;
  const ValueId x = w.given("x", {16});
  w.result(w.op("Add", {w.op("Exp", {x}), w.op("Exp", {x})}));
  EXPECT_EQ(w.merged({.max_visits = 1}).removed, 0);
  EXPECT_EQ(w.merged({.max_visits = 100}).removed, 1);
}

TEST(CommonOps, AGraphWithWholesStaysAsItIs) {
  Twins w;
  const ValueId x = w.given("x", {2, 16});
  const ValueId a = w.op("Exp", {x}), b = w.op("Exp", {x});
  w.result(w.op("Tanh", {w.op("Join", {a, b}, {{"axis", int64_t{0}}})}));
  const CommonOpsReport report = w.merged();
  EXPECT_FALSE(report.changed());
}

}  // namespace
}  // namespace lowtide::rewrite
