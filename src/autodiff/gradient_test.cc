// How gradients are put together: sums over several readers, broadcasting, views, what is left out,
// names and order.
#include "autodiff/gradient.h"

#include <gtest/gtest.h>

#include "support/gradient_oracle.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

TEST(Gradient, BroadcastOperandsAreSummedBack) {
  const std::vector<std::pair<ref::Sizes, ref::Sizes>> shapes = {
      {{2, 3, 4}, {4}},       {{2, 3, 4}, {3, 1}}, {{3, 1}, {1, 4}},
      {{2, 3}, ref::Sizes{}}, {{1, 3}, {2, 1, 1}}, {{1}, {2, 2}}};
  for (const auto& [a_dims, b_dims] : shapes)
    for (const char* kind : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
      SCOPED_TRACE(kind);
      GraphWriter w;
      const ValueId a = w.leaf("a", a_dims), b = w.leaf("b", b_dims);
      const ValueId y = w.op(kind, {a, b});
      expect_gradients(w, w.scalarise(y), {a, b});
    }
}

TEST(Gradient, MatMulInAllItsForms) {
  struct Case {
    ref::Sizes a, b;
    int64_t trans_a, trans_b;
  };
  const std::vector<Case> cases = {
      {{2, 3}, {3, 4}, 0, 0},       {{3, 2}, {3, 4}, 1, 0},       {{2, 3}, {4, 3}, 0, 1},
      {{3, 2}, {4, 3}, 1, 1},       {{5, 2, 3}, {3, 4}, 0, 0},    {{5, 2, 3}, {4, 3}, 0, 1},
      {{5, 3, 2}, {3, 4}, 1, 0},    {{2, 3}, {5, 3, 4}, 0, 0},    {{2, 1, 2, 3}, {4, 3, 5}, 0, 0},
      {{2, 2, 3}, {2, 3, 4}, 0, 0}, {{2, 3, 2}, {2, 4, 3}, 1, 1}, {{1, 2, 3}, {3, 4, 3}, 0, 1}};
  for (const Case& c : cases) {
    GraphWriter w;
    const ValueId a = w.leaf("a", c.a), b = w.leaf("b", c.b);
    const ir::Attrs attrs = {{"trans_a", c.trans_a}, {"trans_b", c.trans_b}};
    const ValueId plain = w.op("MatMul", {a, b}, attrs);
    const ValueId bias = w.leaf("bias", {*w.graph.value(plain).dims.back().constant()});
    const ValueId y = w.op("MatMul", {a, b, bias, plain}, attrs);
    expect_gradients(w, w.scalarise(y), {a, b, bias});
  }
}

TEST(Gradient, OfAWeightUnderActivationsOfAnyRankIsOneProduct) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3, 4, 5}, Category::kInput), weight = w.leaf("w", {5, 6});
  const ValueId y = w.op("MatMul", {x, weight});
  const ir::Graph graph = expect_gradients(w, w.scalarise(y), {weight});
  const ir::Value& gradient = graph.value(*graph.find_value("grad/w"));
  const ir::Op& product = graph.op(gradient.producer);
  EXPECT_EQ(product.kind, "MatMul");
  EXPECT_EQ(graph.value(product.inputs[0]).dims, (ir::Dims{24, 5}));
  EXPECT_EQ(gradient.category, Category::kGradient);
  EXPECT_EQ(product.phase, Phase::kBackward);
  EXPECT_EQ(count_kind(graph, "MatMul"), 2);     // nothing for x
  EXPECT_EQ(count_kind(graph, "ReduceSum"), 1);  // that of the loss
}

// A weight that is read twice, by ops that can add into its gradient.
GraphWriter tied_weights(ValueId* loss, ValueId* weight) {
  GraphWriter w;
  const ValueId tokens = w.leaf(
      "tokens", ref::Tensor::of(DType::kI64, {2, 3}, std::vector<int64_t>{0, 2, -1, 2, 1, 0}));
  *weight = w.leaf("table", {4, 5});
  const ValueId embedded = w.op("Gather", {*weight, tokens}, {{"axis", int64_t{0}}});
  const ValueId hidden = w.op("Tanh", {embedded});
  const ValueId logits = w.op("MatMul", {hidden, *weight}, {{"trans_b", int64_t{1}}});
  *loss = w.scalarise(logits);
  return w;
}

TEST(Gradient, TiedWeightsAddIntoOneBuffer) {
  ValueId loss, weight;
  const GraphWriter w = tied_weights(&loss, &weight);
  const ir::Graph graph = expect_gradients(w, loss, {weight});
  EXPECT_EQ(count_kind(graph, "Add"), 0);
  const ir::Op& last = graph.op(graph.value(*graph.find_value("grad/table")).producer);
  ASSERT_EQ(last.kind, "GatherGrad");
  ASSERT_EQ(last.inputs.size(), 3u);
  ASSERT_TRUE(last.inputs[2].valid());
  EXPECT_EQ(graph.value(last.inputs[2]).category, Category::kGradient);  // the sum so far
}

TEST(Gradient, WithoutAccumulatorsTheSumIsAnAdd) {
  ValueId loss, weight;
  const GraphWriter w = tied_weights(&loss, &weight);
  const ir::Graph graph = expect_gradients(w, loss, {weight}, {.add_into_buffers = false});
  EXPECT_EQ(count_kind(graph, "Add"), 1);
  EXPECT_EQ(graph.op(graph.value(*graph.find_value("grad/table")).producer).kind, "Add");
}

TEST(Gradient, ConvolutionsThatShareAWeight) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3, 5, 4}), weight = w.leaf("w", {3, 3, 3, 3});
  const ir::Attrs attrs = {{"pads", ir::Dims{1, 1, 1, 1}}};
  const ValueId once = w.op("Sigmoid", {w.op("Conv", {x, weight}, attrs)});
  const ValueId y = w.op("Conv", {once, weight}, attrs);
  const ir::Graph graph = expect_gradients(w, w.scalarise(y), {x, weight});
  EXPECT_EQ(count_kind(graph, "Add"), 0);
}

TEST(Gradient, SeveralReadersAndTheSameValueTwice) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {3, 3});
  const ValueId square = w.op("Mul", {x, x});
  const ValueId product = w.op("MatMul", {square, x});
  const ValueId sum = w.op("Add", {product, w.op("Sub", {square, x})});
  const ValueId both = w.op("Concat", {sum, x, sum}, {{"axis", int64_t{1}}});
  expect_gradients(w, w.scalarise(both), {x});
}

TEST(Gradient, StridedAndReversedSlices) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {5, 6});
  const ValueId strided =
      w.op("Slice", {x},
           {{"starts", ir::Dims{1, 0}}, {"sizes", ir::Dims{2, 3}}, {"steps", ir::Dims{2, 2}}});
  const ValueId block = w.op("Slice", {x}, {{"starts", ir::Dims{1, 2}}, {"sizes", ir::Dims{2, 3}}});
  const ValueId cut = w.op("Pad", {x}, {{"begins", ir::Dims{-1, 1}}, {"ends", ir::Dims{-2, -4}}});
  const ValueId y = w.op("Mul", {w.op("Add", {strided, block}), cut});
  expect_gradients(w, w.scalarise(y), {x});
}

TEST(Gradient, OfAValueCutIntoPiecesIsOneConcat) {
  // Pieces are made in the order 2, 0, last; `used` says how many of these reach the loss, from the
  // back.
  const auto cut = [](int used, bool other_reader, int64_t last_start) {
    GraphWriter w;
    const ValueId x = w.leaf("x", {2, 6});
    const ValueId whole = w.op("Exp", {x});
    const auto piece = [&](int64_t start) {
      return w.op("Slice", {whole}, {{"starts", ir::Dims{0, start}}, {"sizes", ir::Dims{2, 2}}});
    };
    const ValueId second = piece(2), first = piece(0), last = piece(last_start);
    ValueId y = w.op("Tanh", {last});
    if (used > 1) y = w.op("Mul", {y, first});
    if (used > 2) y = w.op("Mul", {y, second});
    if (other_reader) y = w.op("MatMul", {y, whole}, {{"trans_a", int64_t{1}}});
    return expect_gradients(w, w.scalarise(y), {x});
  };
  for (const int used : {1, 2, 3}) {
    const ir::Graph joined = cut(used, false, 4);
    EXPECT_EQ(count_kind(joined, "Concat"), 1);
    // The loss itself, and pieces without part in it.
    EXPECT_EQ(count_kind(joined, "Fill"), 4 - used);
    EXPECT_EQ(count_kind(joined, "Pad") + count_kind(joined, "Add"), 0);
  }
  EXPECT_EQ(count_kind(cut(3, true, 4), "Concat"), 0);   // somebody reads the whole
  EXPECT_EQ(count_kind(cut(3, false, 3), "Concat"), 0);  // overlap
}

TEST(Gradient, TransposesAreUndoneByTheInverse) {  // which a cycle of three is not itself
  for (const ir::Dims& perm : {ir::Dims{1, 2, 0}, ir::Dims{2, 0, 1}, ir::Dims{0, 2, 1}}) {
    GraphWriter w;
    const ValueId x = w.leaf("x", {2, 3, 4});
    expect_gradients(w, w.scalarise(w.op("Transpose", {x}, {{"perm", perm}})), {x});
  }
}

TEST(Gradient, NumbersStayNumbersUntilSomethingNeedsThem) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3}), target = w.leaf("t", {2, 3}, Category::kInput);
  const ValueId error = w.op("MseLoss", {w.op("Tanh", {x}), target});
  const ValueId loss = w.op("AffineScalar", {error}, {{"scale", 0.25}, {"shift", 1.0}});
  const ValueId twice = w.op("Add", {loss, error});
  const ir::Graph graph = expect_gradients(w, twice, {x});
  EXPECT_EQ(count_kind(graph, "Fill"), 0);
  EXPECT_EQ(count_kind(graph, "Mul"), 0);
}

TEST(Gradient, OfALossTimesAnActivation) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 4}), y = w.leaf("y", ref::Sizes{});
  const ValueId labels =
      w.leaf("labels", ref::Tensor::of(DType::kI64, {2}, std::vector<int64_t>{1, 3}));
  const auto entropy = w.ops("CrossEntropy", {x, labels}, {{"axis", int64_t{1}}});
  const ValueId loss = w.op("Mul", {entropy[0], w.op("Exp", {y})});
  expect_gradients(w, loss, {x, y});
}

TEST(Gradient, IgnoredLabelsHaveNone) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {3, 4});
  const ValueId labels =
      w.leaf("labels", ref::Tensor::of(DType::kI64, {3}, std::vector<int64_t>{1, 7, 0}));
  const auto entropy =
      w.ops("CrossEntropy", {x, labels}, {{"axis", int64_t{1}}, {"ignore_index", int64_t{7}}});
  const ir::Graph graph = expect_gradients(w, entropy[0], {x});
  const auto values = ref::interpret(graph, w.given).value();
  const ref::Tensor& dx = values.at(*graph.find_value("grad/x"));
  for (size_t e = 4; e < 8; ++e) EXPECT_EQ(dx.f[e], 0.0);
}

TEST(Gradient, ReachesOnlyWhatTheLossDependsOn) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 2}), unused = w.leaf("unused", {2}),
                loose = w.leaf("loose", {2, 2});
  w.op("Tanh", {w.op("Add", {loose, unused})});
  const ValueId flat = w.op("Floor", {loose});
  ValueId loss = w.scalarise(w.op("Mul", {x, flat}));
  ir::Graph graph = w.graph;
  const std::vector<ValueId> wrt = {x, unused, loose};
  const auto gradients = append_gradients(graph, loss, wrt).value();
  EXPECT_TRUE(gradients[0].valid());
  EXPECT_FALSE(gradients[1].valid());
  EXPECT_FALSE(gradients[2].valid());  // Floor is flat
}

TEST(Gradient, RefusesWhatHasNoRuleAndSaysWhich) {
  GraphWriter w;
  const ValueId a = w.leaf("a", {2}), b = w.leaf("b", {2});
  const ValueId loss = w.scalarise(w.op("Mod", {a, b}, {}, "the_modulus"));
  ir::Graph graph = w.graph;
  const auto gradients = append_gradients(graph, loss, std::vector<ValueId>{a});
  ASSERT_FALSE(gradients.has_value());
  EXPECT_EQ(gradients.error().code, ErrorCode::kInput);
  EXPECT_NE(gradients.error().message.find("the_modulus"), std::string::npos);
  EXPECT_FALSE(append_gradients(graph, a, std::vector<ValueId>{a}).has_value());  // no scalar
}

TEST(Gradient, KeepsIdsAndRunsAgainstTheOrderOfTheForwardOps) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3});
  const ValueId first = w.op("Tanh", {x}, {}, "first");
  const ValueId second = w.op("Exp", {first}, {}, "second");
  const ValueId loss = w.scalarise(second);
  const ir::Graph graph = expect_gradients(w, loss, {x});
  for (const ValueId id : w.graph.values()) EXPECT_EQ(graph.value(id).name, w.graph.value(id).name);
  const std::string& before = graph.op(ir::OpId(graph.op_count() - 2)).name;
  const ir::Op& last = graph.op(ir::OpId(graph.op_count() - 1));
  EXPECT_EQ(before, "second/Mul");
  EXPECT_EQ(last.name, "first/TanhGrad");
  EXPECT_EQ(graph.value(last.outputs[0]).name, "grad/x");
  EXPECT_EQ(last.inputs[1], first);  // from the result, not from the operand
}

TEST(Gradient, SizesMayBeSymbolic) {
  ir::Graph graph;
  const auto leaf = [&](std::string name, ir::Dims dims, Category category) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = std::move(dims);
    value.category = category;
    return graph.add_value(std::move(value));
  };
  const sym::Expr batch = sym::Expr::symbol("batch");
  const ValueId x = leaf("x", {batch, 7, 3}, Category::kInput),
                weight = leaf("w", {3, 4}, Category::kParameter),
                bias = leaf("b", {4}, Category::kParameter),
                target = leaf("t", {batch, 7, 4}, Category::kInput);
  const auto y = ops::append(graph, "MatMul", {x, weight, bias}, {});
  ASSERT_TRUE(y.has_value());
  const auto loss = ops::append(graph, "MseLoss", {graph.op(*y).outputs[0], target}, {});
  ASSERT_TRUE(loss.has_value());
  const std::vector<ValueId> wrt = {weight, bias};
  const auto gradients = append_gradients(graph, graph.op(*loss).outputs[0], wrt);
  ASSERT_TRUE(gradients.has_value()) << gradients.error().message;
  EXPECT_EQ(graph.value((*gradients)[0]).dims, (ir::Dims{3, 4}));
  EXPECT_EQ(graph.value((*gradients)[1]).dims, (ir::Dims{4}));
  EXPECT_TRUE(ir::check(graph).has_value());
}

}  // namespace
}  // namespace lowtide::autodiff
