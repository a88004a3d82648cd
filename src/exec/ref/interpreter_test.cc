// The interpreter against values worked out by hand from the definitions in docs/ops.md and the
// papers and standards behind them; and every row of the op table against its own kernel.
#include "exec/ref/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "ops/testing/random_instance.h"

namespace lowtide::ref {
namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<int64_t>;
using Inputs = std::vector<std::optional<Tensor>>;

Tensor real(Sizes dims, Doubles values) {
  return Tensor::of(DType::kF32, std::move(dims), std::move(values));
}
Tensor whole(Sizes dims, Integers values) {
  return Tensor::of(DType::kI64, std::move(dims), std::move(values));
}
Tensor logic(Sizes dims, Integers values) {
  return Tensor::of(DType::kBool, std::move(dims), std::move(values));
}
ir::Dims sizes(Integers values) {
  return ir::Dims(values.begin(), values.end());
}

std::vector<Tensor> all(std::string_view kind, const Inputs& inputs, const ir::Attrs& attrs = {},
                        const Context& context = {.precision = Precision::kF64}) {
  const auto outputs = evaluate(kind, attrs, inputs, context);
  EXPECT_TRUE(outputs.has_value()) << kind << ": " << (outputs ? "" : outputs.error().message);
  return outputs ? *outputs : std::vector<Tensor>(3);
}
Tensor one(std::string_view kind, const Inputs& inputs, const ir::Attrs& attrs = {}) {
  return all(kind, inputs, attrs)[0];
}

void expect_near(const Tensor& tensor, const Doubles& values, double tolerance = 1e-9) {
  ASSERT_EQ(tensor.f.size(), values.size());
  for (size_t e = 0; e < values.size(); ++e)
    EXPECT_NEAR(tensor.f[e], values[e], tolerance) << "element " << e;
}

Tensor counting(Sizes dims) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(dims));
  for (size_t e = 0; e < tensor.f.size(); ++e) tensor.f[e] = static_cast<double>(e);
  return tensor;
}

// ---- the table

Tensor drawn(const ops::Type& type, const ops::InputValues& values, Rng& rng) {
  Sizes dims;
  for (const sym::Expr& dim : type.dims) dims.push_back(*dim.constant());
  Tensor tensor = Tensor::zeros(type.dtype, dims);
  const Doubles numbers = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < numbers.size(); ++e) {
    if (tensor.real()) {
      tensor.f[e] = static_cast<double>(static_cast<float>(numbers[e]));
    } else {
      tensor.i[e] = static_cast<int64_t>(numbers[e]);
    }
  }
  return tensor;
}

void expect_precisions_agree(const Tensor& single, const Tensor& twice) {
  ASSERT_EQ(single.dims, twice.dims);
  EXPECT_EQ(single.i, twice.i);
  for (size_t e = 0; e < single.f.size(); ++e) {
    if (!std::isfinite(twice.f[e])) continue;
    EXPECT_NEAR(single.f[e], twice.f[e], 2e-4 * std::max(1.0, std::abs(twice.f[e])));
    if (single.dtype != DType::kF32) continue;
    EXPECT_EQ(single.f[e], static_cast<double>(static_cast<float>(single.f[e])));
  }
}

TEST(Table, EveryRowRunsInBothPrecisionsAndTheyAgree) {
  for (const std::string_view kind : ops::kinds())
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << kind << " seed " << seed);
      Rng rng(seed);
      const auto random = ops::random_instance(kind, rng);
      ASSERT_TRUE(random.has_value()) << random.error().message;
      Inputs inputs;
      for (size_t i = 0; i < random->inputs.size(); ++i)
        inputs.push_back(random->inputs[i]
                             ? std::optional(drawn(*random->inputs[i], random->values[i], rng))
                             : std::nullopt);
      const auto single = evaluate(random->instance(), inputs, {.seed = 3});
      const auto twice =
          evaluate(random->instance(), inputs, {.seed = 3, .precision = Precision::kF64});
      ASSERT_TRUE(single.has_value() && twice.has_value()) << single.error().message;
      for (size_t o = 0; o < single->size(); ++o)
        expect_precisions_agree((*single)[o], (*twice)[o]);
    }
}

// ---- elementwise

TEST(Elementwise, FunctionsOfOneOperand) {
  const Tensor x = real({4}, {-2.0, -0.5, 0.0, 3.0});
  EXPECT_EQ(one("Relu", {x}).f, (Doubles{0, 0, 0, 3}));
  EXPECT_EQ(one("Clip", {x}, {{"min", -1.0}, {"max", 2.0}}).f, (Doubles{-1, -0.5, 0, 2}));
  EXPECT_EQ(one("Clip", {x}, {{"max", 2.0}}).f, (Doubles{-2, -0.5, 0, 2}));
  EXPECT_EQ(one("Sign", {x}).f, (Doubles{-1, -1, 0, 1}));
  EXPECT_EQ(one("LeakyRelu", {x}, {{"alpha", 0.1}}).f, (Doubles{-0.2, -0.05, 0, 3}));
  EXPECT_EQ(one("PowScalar", {x}, {{"exponent", 2.0}}).f, (Doubles{4, 0.25, 0, 9}));
  EXPECT_EQ(one("AffineScalar", {x}, {{"scale", 2.0}, {"shift", 1.0}}).f, (Doubles{-3, 0, 1, 7}));
  EXPECT_EQ(one("HardSwish", {x}).f, (Doubles{-1.0 / 3, -0.5 * 2.5 / 6, 0, 3}));
  EXPECT_EQ(one("Round", {real({4}, {0.5, 1.5, 2.5, -0.5})}).f, (Doubles{0, 2, 2, 0}));
  expect_near(one("HardSigmoid", {x}, {{"alpha", 0.2}, {"beta", 0.5}}), {0.1, 0.4, 0.5, 1.0});
  expect_near(one("Elu", {x}, {{"alpha", 2.0}}),
              {2 * (std::exp(-2.0) - 1), 2 * (std::exp(-0.5) - 1), 0, 3});
  expect_near(one("Gelu", {real({2}, {1.0, -2.0})}), {0.841344746068543, -0.045500263896358},
              1e-12);
  expect_near(one("Gelu", {real({1}, {1.0})}, {{"approximate", std::string("tanh")}}),
              {0.841191990608302}, 1e-12);
  expect_near(one("Silu", {real({1}, {1.0})}), {0.731058578630005}, 1e-12);
  expect_near(one("Mish", {real({1}, {1.0})}), {0.865098388267}, 1e-10);
  expect_near(one("Softplus", {real({2}, {0.0, 1000.0})}), {std::log(2.0), 1000.0});
  EXPECT_EQ(one("Neg", {whole({2}, {3, -4})}).i, (Integers{-3, 4}));
  EXPECT_EQ(one("IsNaN", {real({2}, {std::nan(""), 1.0})}).i, (Integers{1, 0}));
}

TEST(Elementwise, BroadcastsAsNumpyDoes) {
  const Tensor y = one("Sub", {real({2, 1}, {10, 20}), real({3}, {1, 2, 3})});
  EXPECT_EQ(y.dims, (Sizes{2, 3}));
  EXPECT_EQ(y.f, (Doubles{9, 8, 7, 19, 18, 17}));
  EXPECT_EQ(one("Where", {logic({2, 1}, {1, 0}), real({}, {7}), real({2}, {1, 2})}).f,
            (Doubles{7, 7, 1, 2}));
  EXPECT_EQ(one("Less", {whole({2}, {1, 5}), whole({}, {3})}).i, (Integers{1, 0}));
  EXPECT_EQ(one("Xor", {logic({2}, {1, 1}), logic({2}, {0, 1})}).i, (Integers{1, 0}));
}

TEST(Elementwise, RemaindersHaveTheSignOfTheDivisor) {
  const Tensor a = whole({4}, {-7, 7, -7, 7}), b = whole({4}, {3, -3, -3, 3});
  EXPECT_EQ(one("Div", {a, b}).i, (Integers{-2, -2, 2, 2}));
  EXPECT_EQ(one("Mod", {a, b}).i, (Integers{2, -2, -1, 1}));
  EXPECT_EQ(one("Pow", {whole({3}, {2, -3, 5}), whole({3}, {10, 3, 0})}).i,
            (Integers{1024, -27, 1}));
}

TEST(Elementwise, ShiftsMoveZerosInAndLeaveNothingBehindTheWidth) {
  const Tensor places = whole({6}, {0, 1, 63, 64, -1, 4});
  EXPECT_EQ(one("ShiftLeft", {whole({}, {-3}), places}).i,
            (Integers{-3, -6, INT64_MIN, 0, 0, -48}));
  EXPECT_EQ(one("ShiftRight", {whole({}, {-3}), places}).i,
            (Integers{-3, INT64_MAX - 1, 1, 0, 0, (int64_t{1} << 60) - 1}));
  EXPECT_EQ(one("BitwiseXor", {whole({3}, {12, -1, 5}), whole({}, {10})}).i,
            (Integers{6, -11, 15}));
  EXPECT_EQ(one("BitwiseAnd", {whole({2}, {12, -1}), whole({}, {10})}).i, (Integers{8, 10}));
  EXPECT_EQ(one("BitwiseOr", {whole({2}, {12, -1}), whole({}, {10})}).i, (Integers{14, -1}));
}

TEST(Elementwise, CastsTruncateAndWrap) {
  const Tensor x = real({4}, {-1.9, 0.0, 2.9, 300.0});
  EXPECT_EQ(one("Cast", {x}, {{"to", std::string("i64")}}).i, (Integers{-1, 0, 2, 300}));
  EXPECT_EQ(one("Cast", {x}, {{"to", std::string("bool")}}).i, (Integers{1, 0, 1, 1}));
  EXPECT_EQ(one("Cast", {whole({2}, {300, -1})}, {{"to", std::string("u8")}}).i,
            (Integers{44, 255}));
  EXPECT_EQ(one("Cast", {logic({2}, {0, 1})}, {{"to", std::string("f32")}}).f, (Doubles{0, 1}));
}

// ---- products

TEST(Products, MatMulWithBiasAndAccumulator) {
  const Tensor a = real({2, 2}, {1, 2, 3, 4}), b = real({2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(one("MatMul", {a, b}).f, (Doubles{19, 22, 43, 50}));
  EXPECT_EQ(one("MatMul", {a, b}, {{"trans_a", int64_t{1}}}).f, (Doubles{26, 30, 38, 44}));
  EXPECT_EQ(one("MatMul", {a, b}, {{"trans_b", int64_t{1}}}).f, (Doubles{17, 23, 39, 53}));
  EXPECT_EQ(one("MatMul", {a, b, real({2}, {100, 200}), a}).f, (Doubles{120, 224, 146, 254}));
  const Tensor batched = one("MatMul", {counting({2, 1, 2}), real({2, 1}, {1, 10})});
  EXPECT_EQ(batched.dims, (Sizes{2, 1, 1}));
  EXPECT_EQ(batched.f, (Doubles{10, 32}));
}

TEST(Products, ConvolutionWithStrideDilationPaddingAndGroups) {
  const Tensor x = counting({1, 1, 3, 3});
  const Tensor w = real({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(one("Conv", {x, w}).f, (Doubles{27, 37, 57, 67}));
  EXPECT_EQ(one("Conv", {x, w, real({1}, {0.5})}, {{"pads", sizes({1, 0, 0, 0})}}).f,
            (Doubles{4.5, 11.5, 27.5, 37.5, 57.5, 67.5}));
  EXPECT_EQ(one("Conv", {x, w}, {{"dilations", sizes({2, 2})}}).f, (Doubles{54}));
  EXPECT_EQ(one("Conv", {x, w}, {{"strides", sizes({2, 2})}, {"pads", sizes({0, 0, 1, 1})}}).f,
            (Doubles{27, 17, 20, 8}));
  const Tensor pairs = real({1, 2, 2}, {1, 2, 10, 20});
  EXPECT_EQ(one("Conv", {pairs, real({2, 1, 1}, {3, 5})}, {{"group", int64_t{2}}}).f,
            (Doubles{3, 6, 50, 100}));
}

TEST(Products, ConvolutionGradientsAreItsTransposes) {
  // <y, Conv(x, w)> = <ConvDataGrad(y, w), x> = <ConvWgtGrad(x, y), w>
  const ir::Attrs window = {{"strides", sizes({2, 1})},
                            {"pads", sizes({1, 0, 1, 2})},
                            {"dilations", sizes({1, 2})},
                            {"group", int64_t{2}}};
  Rng rng(1);
  const auto random = [&](Sizes dims) {
    Tensor tensor = Tensor::zeros(DType::kF32, std::move(dims));
    for (double& e : tensor.f) e = rng.uniform() - 0.5;
    return tensor;
  };
  const auto inner = [](const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (size_t e = 0; e < a.f.size(); ++e) sum += a.f[e] * b.f[e];
    return sum;
  };
  const Tensor x = random({2, 4, 5, 6}), w = random({6, 2, 3, 2});
  const Tensor forward = one("Conv", {x, w}, window);
  const Tensor y = random(forward.dims);
  ir::Attrs data = window, weight = window;
  data.emplace("output_spatial", sizes({5, 6}));
  weight.emplace("kernel", sizes({3, 2}));
  EXPECT_NEAR(inner(one("ConvDataGrad", {y, w}, data), x), inner(forward, y), 1e-12);
  EXPECT_NEAR(inner(one("ConvWgtGrad", {x, y}, weight), w), inner(forward, y), 1e-12);
  const Tensor added = one("ConvWgtGrad", {x, y, w}, weight);
  EXPECT_NEAR(inner(added, w), inner(forward, y) + inner(w, w), 1e-12);
}

// ---- pooling, reductions

TEST(Pooling, MaximumRemembersTheFirstTap) {
  const Tensor x = real({1, 1, 2, 4}, {1, 5, 5, 2, 3, 0, 5, 9});
  const auto pooled = all("MaxPool", {x}, {{"kernel", sizes({2, 2})}, {"strides", sizes({2, 2})}});
  EXPECT_EQ(pooled[0].f, (Doubles{5, 9}));
  EXPECT_EQ(pooled[1].i, (Integers{1, 3}));
  const auto back = one(
      "MaxPoolGrad", {real({1, 1, 1, 2}, {10, 20}), pooled[1]},
      {{"kernel", sizes({2, 2})}, {"strides", sizes({2, 2})}, {"input_spatial", sizes({2, 4})}});
  EXPECT_EQ(back.f, (Doubles{0, 10, 0, 0, 0, 0, 0, 20}));
  const auto tie = all("MaxPool", {real({1, 1, 3}, {4, 4, 4})}, {{"kernel", sizes({3})}});
  EXPECT_EQ(tie[1].i, (Integers{0}));
  const auto negative = all("MaxPool", {real({1, 1, 2}, {-3, -4})},
                            {{"kernel", sizes({2})}, {"pads", sizes({1, 0})}});
  EXPECT_EQ(negative[0].f, (Doubles{-3, -3}));  // padding is no candidate
  EXPECT_EQ(negative[1].i, (Integers{1, 0}));
}

TEST(Pooling, AveragesCountWhatTheyAreToldTo) {
  const Tensor x = real({1, 1, 5}, {1, 2, 3, 4, 5});
  const ir::Attrs base = {{"kernel", sizes({3})}, {"strides", sizes({2})}, {"pads", sizes({1, 1})}};
  const auto with = [&](std::string name) {
    ir::Attrs attrs = base;
    attrs.emplace(std::move(name), int64_t{1});
    return attrs;
  };
  expect_near(one("AvgPool", {x}, base), {1.5, 3, 4.5});
  expect_near(one("AvgPool", {x}, with("count_include_pad")), {1, 3, 3});
  // Rounded up, the last window hangs over: its taps beyond the padding count for nothing.
  const ir::Attrs ceil = {{"kernel", sizes({2})},
                          {"strides", sizes({2})},
                          {"ceil_mode", int64_t{1}},
                          {"count_include_pad", int64_t{1}}};
  expect_near(one("AvgPool", {x}, ceil), {1.5, 3.5, 5});
  // The first window lies in the padding alone.
  const ir::Attrs outside = {{"kernel", sizes({2})}, {"pads", sizes({2, 0})}};
  expect_near(one("AvgPool", {x}, outside), {0, 1, 1.5, 2.5, 3.5, 4.5});
}

TEST(Reduce, OverAxesWithAndWithoutKeepingThem) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(one("ReduceSum", {x}, {{"axes", sizes({0})}, {"keepdims", int64_t{0}}}).f,
            (Doubles{3, 5, 7}));
  EXPECT_EQ(one("ReduceMean", {x}, {{"axes", sizes({1})}, {"keepdims", int64_t{1}}}).dims,
            (Sizes{2, 1}));
  EXPECT_EQ(one("ReduceMean", {x}, {{"axes", sizes({1})}, {"keepdims", int64_t{1}}}).f,
            (Doubles{1, 4}));
  EXPECT_EQ(one("ReduceMax", {x}, {{"axes", sizes({0, 1})}, {"keepdims", int64_t{0}}}).f,
            (Doubles{5}));
  EXPECT_EQ(one("ReduceSum", {whole({2}, {4, 5})}, {{"axes", sizes({0})}}).i, (Integers{9}));
}

TEST(Precision, FloatSumsLoseWhatFloatsLose) {
  const Tensor x = real({3}, {16777216, 1, 1});
  const ir::Attrs attrs = {{"axes", sizes({0})}};
  EXPECT_EQ(all("ReduceSum", {x}, attrs, {})[0].f[0], 16777216.0);
  EXPECT_EQ(one("ReduceSum", {x}, attrs).f[0], 16777218.0);
  Tensor wide = x;
  wide.dtype = DType::kF64;
  EXPECT_EQ(all("ReduceSum", {wide}, attrs, {})[0].f[0], 16777218.0);
}

// ---- normalisation, softmax, loss

TEST(Norm, LayersRowsAndChannels) {
  const Tensor x = real({1, 4}, {1, 2, 3, 4});
  const double s = 1 / std::sqrt(1.25);
  const auto layer = all("LayerNorm", {x, real({4}, {1, 1, 1, 2}), real({4}, {0, 0, 0, 1})},
                         {{"axis", int64_t{1}}, {"epsilon", 0.0}});
  expect_near(layer[0], {-1.5 * s, -0.5 * s, 0.5 * s, 3 * s + 1});
  expect_near(layer[1], {2.5});
  expect_near(layer[2], {s});
  const auto rms =
      all("RmsNorm", {x, real({4}, {1, 1, 1, 1})}, {{"axis", int64_t{1}}, {"epsilon", 0.5}});
  expect_near(rms[1], {1 / std::sqrt(8.0)});
  expect_near(rms[0],
              {1 / std::sqrt(8.0), 2 / std::sqrt(8.0), 3 / std::sqrt(8.0), 4 / std::sqrt(8.0)});
  const Tensor channels = real({2, 2, 1}, {1, 10, 3, 30});
  const auto batch =
      all("BatchNormTrain", {channels, real({2}, {1, 2}), real({2}, {0, 5})}, {{"epsilon", 0.0}});
  expect_near(batch[0], {-1, 3, 1, 7});
  expect_near(batch[1], {2, 20});
  expect_near(batch[2], {1, 100});
  expect_near(
      one("BatchNormInference",
          {channels, real({2}, {1, 2}), real({2}, {0, 5}), batch[1], batch[2]}, {{"epsilon", 0.0}}),
      {-1, 3, 1, 7});
  expect_near(one("RunningUpdate", {real({1}, {10}), real({1}, {4})},
                  {{"momentum", 0.1}, {"correction", 1.5}}),
              {9.6});
}

TEST(Norm, SoftmaxAlongAnyAxisWithoutOverflow) {
  const Tensor x = real({2, 2}, {1000, 0, 1000, std::log(3.0)});
  expect_near(one("Softmax", {x}, {{"axis", int64_t{0}}}), {0.5, 0.25, 0.5, 0.75});
  expect_near(one("LogSoftmax", {x}, {{"axis", int64_t{0}}}),
              {-std::log(2.0), -std::log(4.0), -std::log(2.0), std::log(0.75)});
}

TEST(Loss, CrossEntropyIsTheMeanOverWhatCounts) {
  const Tensor logits = real({3, 2}, {0, 0, 0, std::log(3.0), 5, 5});
  const Tensor labels = whole({3}, {0, 1, -100});
  const ir::Attrs attrs = {{"axis", int64_t{1}}, {"ignore_index", int64_t{-100}}};
  const auto loss = all("CrossEntropy", {logits, labels}, attrs);
  expect_near(loss[0], {(std::log(2.0) + std::log(4.0 / 3)) / 2});
  expect_near(loss[1], {std::log(2.0), std::log(4.0), 5 + std::log(2.0)});
  ir::Attrs scaled = attrs;
  scaled.emplace("scale", 4.0);
  expect_near(one("CrossEntropyGrad", {logits, labels, loss[1]}, scaled), {-1, 1, 0.5, -0.5, 0, 0});
  expect_near(one("MseLoss", {real({2}, {1, 4}), real({2}, {0, 2})}), {2.5});
  expect_near(one("MseLossGrad", {real({2}, {1, 4}), real({2}, {0, 2})}, {{"scale", 3.0}}), {3, 6});
}

// A label is a class or the one that is ignored; anything else would divide by another number in
// one part than in many.
TEST(Loss, RefusesLabelsThatAreNoClasses) {
  const Tensor logits = real({3, 2}, {0, 0, 0, std::log(3.0), 5, 5}), lse = real({3}, {1, 1, 1});
  const auto refusal = [&](std::string_view kind, const Tensor& labels, ir::Attrs attrs) {
    const bool mean = kind == "CrossEntropyMean", count = kind == "LabelCount";
    if (mean || count)
      attrs["classes"] = int64_t{2};
    else
      attrs["axis"] = int64_t{1};
    Inputs inputs = {logits, labels};
    if (mean) inputs = {lse, lse, labels};
    if (count) inputs = {labels};
    if (kind == "CrossEntropyGrad") inputs.emplace_back(lse);
    const auto made = evaluate(kind, attrs, inputs);
    return made ? std::string() : made.error().message;
  };
  const ir::Attrs ignores = {{"ignore_index", int64_t{-100}}};
  for (const std::string kind :
       {"CrossEntropy", "CrossEntropyGrad", "CrossEntropyMean", "LabelCount"}) {
    SCOPED_TRACE(kind);
    const std::string none =
        kind + ": label -100 of row 2 of this op's 3, counted from 0, is none of the 2 classes";
    EXPECT_TRUE(refusal(kind, whole({3}, {0, 1, -100}), {}).starts_with(none));
    EXPECT_EQ(refusal(kind, whole({3}, {0, 1, -100}), ignores), "");
    for (const int64_t label : {int64_t{2}, int64_t{-1}, std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()})
      EXPECT_NE(refusal(kind, whole({3}, {-100, label, 0}), ignores), "") << label;
  }
}

// ---- moving data

TEST(Move, Rearrangements) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(one("Transpose", {x}, {{"perm", sizes({1, 0})}}).f, (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(one("Reshape", {x}, {{"shape", sizes({3, 2})}}).f, x.f);
  EXPECT_EQ(one("Slice", {x},
                {{"starts", sizes({1, 0})}, {"sizes", sizes({1, 2})}, {"steps", sizes({1, 2})}})
                .f,
            (Doubles{3, 5}));
  EXPECT_EQ(
      one("Pad", {x}, {{"begins", sizes({0, -1})}, {"ends", sizes({1, 1})}, {"value", 9.0}}).f,
      (Doubles{1, 2, 9, 4, 5, 9, 9, 9, 9}));
  EXPECT_EQ(one("Concat", {x, real({2, 1}, {7, 8})}, {{"axis", int64_t{1}}}).f,
            (Doubles{0, 1, 2, 7, 3, 4, 5, 8}));
  EXPECT_EQ(one("Expand", {real({2, 1}, {1, 2})}, {{"shape", sizes({2, 2})}}).f,
            (Doubles{1, 1, 2, 2}));
  EXPECT_EQ(one("Trilu", {counting({2, 2})}, {{"upper", int64_t{0}}, {"k", int64_t{0}}}).f,
            (Doubles{0, 0, 2, 3}));
  EXPECT_EQ(
      one("Fill", {}, {{"shape", sizes({2})}, {"value", 3.0}, {"dtype", std::string("i64")}}).i,
      (Integers{3, 3}));
}

TEST(Move, GatherCountsNegativeRowsFromTheEndAndItsGradientAddsUp) {
  const Tensor data = counting({3, 2}), rows = whole({2, 2}, {0, -1, 2, 2});
  const Tensor y = one("Gather", {data, rows}, {{"axis", int64_t{0}}});
  EXPECT_EQ(y.dims, (Sizes{2, 2, 2}));
  EXPECT_EQ(y.f, (Doubles{0, 1, 4, 5, 4, 5, 4, 5}));
  EXPECT_EQ(one("Gather", {data, whole({1}, {1})}, {{"axis", int64_t{1}}}).f, (Doubles{1, 3, 5}));
  const ir::Attrs attrs = {{"axis", int64_t{0}}, {"dim", int64_t{3}}};
  EXPECT_EQ(one("GatherGrad", {y, rows}, attrs).f, (Doubles{0, 1, 0, 0, 12, 15}));
  EXPECT_EQ(one("GatherGrad", {y, rows, data}, attrs).f, (Doubles{0, 2, 2, 3, 16, 20}));
}

// ---- random

TEST(Random, DropoutFollowsThePhiloxStream) {
  const Tensor x = real({2, 3}, {1, 2, 3, 4, 5, 6});
  const Context context{.seed = 11, .step = 4, .precision = Precision::kF64};
  const Tensor y = all("Dropout", {x}, {{"ratio", 0.5}, {"stream", int64_t{9}}}, context)[0];
  const RandomStream stream(11, 9, 4);
  for (size_t e = 0; e < 6; ++e) EXPECT_EQ(y.f[e], stream.uniform(e) >= 0.5f ? 2 * x.f[e] : 0.0);
}

TEST(Random, APartDrawsWhatTheWholeWouldHave) {
  const Context context{.seed = 2, .step = 1};
  const ir::Attrs attrs = {{"low", -1.0}, {"high", 1.0}, {"stream", int64_t{1}}};
  const Tensor y = all("RandomUniform", {counting({4, 5})}, attrs, context)[0];
  ir::Attrs part = attrs;
  part.emplace("whole_dims", sizes({4, 5}));
  part.emplace("part_begin", sizes({1, 2}));
  const Tensor z = all("RandomUniform", {counting({2, 3})}, part, context)[0];
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(z.f[r * 3 + c], y.f[(r + 1) * 5 + c + 2]);
}

// ---- graphs

ir::ValueId add(ir::Graph& graph, std::string name, ir::Dims dims, ir::InitialValue initial) {
  ir::Value value;
  value.name = std::move(name);
  value.dims = std::move(dims);
  value.initial = std::move(initial);
  return graph.add_value(std::move(value));
}

TEST(Interpret, KeepsAllValuesAndReadsEveryKindOfInitialValue) {
  ir::Graph graph;
  using Kind = ir::InitialValue::Kind;
  const std::string two("\0\0\0\x40\0\0\x40\x40", 8);  // 2.0f, 3.0f
  const auto x = add(graph, "x", {2}, {.kind = Kind::kFed, .bytes = "", .file = ""});
  const auto c = add(graph, "c", {2}, {.kind = Kind::kInline, .bytes = two, .file = ""});
  const auto m = add(graph, "m", {2}, {.kind = Kind::kZero, .bytes = "", .file = ""});
  const auto w = add(graph, "w", {2}, {.kind = Kind::kSeeded, .bytes = "", .file = ""});
  const auto product = graph.op(*ops::append(graph, "Mul", {x, c}, {})).outputs[0];
  const auto sum = graph.op(*ops::append(graph, "Add", {product, m}, {})).outputs[0];
  const auto values = interpret(graph, {{"x", real({2}, {10, 100})}}, {.seed = 7});
  ASSERT_TRUE(values.has_value()) << values.error().message;
  EXPECT_EQ(values->at(product).f, (Doubles{20, 300}));
  EXPECT_EQ(values->at(sum).f, (Doubles{20, 300}));
  EXPECT_EQ(values->at(w), seeded("w", DType::kF32, {2}, {.parameter = true, .seed = 7}));
  const auto given = interpret(graph, {{"x", real({2}, {1, 1})}, {"m", real({2}, {5, 6})}});
  EXPECT_EQ(given->at(sum).f, (Doubles{7, 9}));
}

TEST(Interpret, NamesWhatIsMissingOrDoesNotFit) {
  ir::Graph graph;
  const auto x = add(graph, "x", {2}, {});
  ASSERT_TRUE(ops::append(graph, "Relu", {x}, {}).has_value());
  const auto message = [&](const Named& given) {
    const auto values = interpret(graph, given);
    return values ? std::string() : values.error().message;
  };
  EXPECT_NE(message({}).find("'x'"), std::string::npos);
  EXPECT_NE(message({{"x", real({3}, {1, 2, 3})}}).find("'x'"), std::string::npos);
  EXPECT_NE(message({{"x", real({2}, {1, 2})}, {"z", real({1}, {1})}}).find("'z'"),
            std::string::npos);
  EXPECT_EQ(message({{"x", real({2}, {1, 2})}}), "");
  EXPECT_TRUE(interpret(graph, {}, {.seed_missing_inputs = true}).has_value());
  EXPECT_FALSE(evaluate("NoSuchOp", {}, {}).has_value());
}

// The numbers are those of tests/python/seeded_values.py: uniform(7, "layer.weight", 2).
TEST(Seeded, AgreesWithTheRecipeInNumpy) {
  const double u = 0.06283660571133942, v = 0.3399165050157975;
  const auto parameter = [](Sizes dims) {
    return seeded("layer.weight", DType::kF64, std::move(dims), {.parameter = true, .seed = 7});
  };
  expect_near(seeded("layer.weight", DType::kF64, {2}, {.seed = 7}), {2 * u - 1, 2 * v - 1}, 1e-15);
  expect_near(parameter({2}), {1 + 0.1 * (2 * u - 1), 1 + 0.1 * (2 * v - 1)}, 1e-15);
  expect_near(parameter({1, 2}), {(2 * u - 1) * std::sqrt(1.5), (2 * v - 1) * std::sqrt(1.5)},
              1e-15);
  expect_near(parameter({}), {0.1 * (2 * u - 1)}, 1e-15);
}

TEST(Seeded, StaysInItsRanges) {
  const Tensor draws = seeded("x", DType::kF64, {1000}, {.seed = 3});
  double low = 1, high = -1;
  for (const double d : draws.f) low = std::min(low, d), high = std::max(high, d);
  EXPECT_GE(low, -1.0);
  EXPECT_LT(low, -0.98);
  EXPECT_LT(high, 1.0);
  EXPECT_GT(high, 0.98);
  const Tensor labels = seeded("labels", DType::kI64, {500}, {.integer_limit = 4});
  for (const int64_t label : labels.i) EXPECT_TRUE(label >= 0 && label < 4);
  const Tensor weight = seeded("w", DType::kF64, {10, 3, 2, 2}, {.parameter = true});
  for (const double d : weight.f) EXPECT_LE(std::abs(d), 0.5);  // sqrt(3 / 12)
  for (const double d : seeded("bn.running_var", DType::kF64, {50}, {.parameter = true}).f)
    EXPECT_GE(d, 1.0);
}

}  // namespace
}  // namespace lowtide::ref
