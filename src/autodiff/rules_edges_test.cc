// Gradients where a function has a corner, a tie or a pole, and finite differences say nothing: the
// numbers are PyTorch's (2.13, in f64) for the same function.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/gradient_oracle.h"

namespace lowtide::autodiff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Numbers = std::vector<double>;

// The gradients of the sum of the op's result, for each input.
std::vector<Numbers> gradients(std::string_view kind, const std::vector<Numbers>& inputs,
                               ir::Attrs attrs = {}) {
  GraphWriter w;
  std::vector<ir::ValueId> leaves;
  for (size_t i = 0; i < inputs.size(); ++i)
    leaves.push_back(
        w.leaf("in" + std::to_string(i),
               ref::Tensor::of(DType::kF64, {static_cast<int64_t>(inputs[i].size())}, inputs[i]),
               Category::kParameter));
  ir::ValueId loss = w.op(kind, leaves, std::move(attrs));
  if (!w.graph.value(loss).dims.empty())
    loss = w.op("ReduceSum", {loss}, {{"axes", ir::Dims{0}}, {"keepdims", int64_t{0}}});
  ir::Graph graph = w.graph;
  const auto made = append_gradients(graph, loss, leaves, {});
  EXPECT_TRUE(made) << made.error().message;
  const auto values = ref::interpret(graph, w.given, {});
  EXPECT_TRUE(values) << values.error().message;
  std::vector<Numbers> result;
  for (const ir::ValueId gradient : *made) result.push_back(values->at(gradient).f);
  return result;
}

void expect_numbers(const Numbers& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) || std::isinf(want[i])) {
      EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
          << "element " << i << ": " << got[i] << ", not " << want[i];
    } else {
      EXPECT_NEAR(got[i], want[i], 1e-12) << "element " << i;
    }
  }
}

TEST(Edges, APowerOfZeroIsFlat) {
  expect_numbers(gradients("PowScalar", {{0, -1, 2}}, {{"exponent", 0.0}})[0], {0, 0, 0});
  expect_numbers(gradients("PowScalar", {{0, -1, 2}}, {{"exponent", 1.0}})[0], {1, 1, 1});
  expect_numbers(gradients("PowScalar", {{0, -3}}, {{"exponent", 2.0}})[0], {0, -6});
  expect_numbers(gradients("PowScalar", {{0, 4}}, {{"exponent", 0.5}})[0], {kInfinity, 0.25});
}

TEST(Edges, PowersOfZeroAndOfNegativeNumbers) {
  const auto made = gradients("Pow", {{0, 0, 0, -2, -2, 2, 0, 0.5}, {0, 1, 2, 2, 3, 0, -1, 0.5}});
  expect_numbers(made[0], {0, 1, 0, -4, 12, 0, -kInfinity, std::sqrt(0.5)});
  expect_numbers(made[1],
                 {0, 0, 0, NAN, NAN, std::log(2), -kInfinity, std::sqrt(0.5) * std::log(0.5)});
}

TEST(Edges, ATieOfMaxOrMinGivesHalfToEach) {
  const auto most = gradients("Max", {{1, 2, 0}, {1, 1, 3}});
  expect_numbers(most[0], {0.5, 1, 0});
  expect_numbers(most[1], {0.5, 0, 1});
  const auto least = gradients("Min", {{1, 2, 0}, {1, 1, 3}});
  expect_numbers(least[0], {0.5, 0, 1});
  expect_numbers(least[1], {0.5, 1, 0});
  expect_numbers(gradients("ReduceMax", {{2, 1, 2}}, {{"axes", ir::Dims{0}}})[0], {0.5, 0, 0.5});
}

// torch.clamp with tensors.
TEST(Edges, ALimitGetsNothingOfATie) {
  const ir::Attrs first = {{"first", int64_t{1}}};
  const auto below = gradients("Max", {{1, 2, 0, NAN, 1}, {1, 1, 3, 1, NAN}}, first);
  expect_numbers(below[0], {1, 1, 0, 0, 0});
  expect_numbers(below[1], {0, 0, 1, 0, 0});
  const auto above = gradients("Min", {{1, 2, 0, NAN, 1}, {1, 1, 3, 1, NAN}}, first);
  expect_numbers(above[0], {1, 0, 1, 0, 0});
  expect_numbers(above[1], {0, 1, 0, 0, 0});
}

TEST(Edges, CornersOfActivations) {
  const Numbers x = {-3, 3, 0, -0.0, 1, -1};
  expect_numbers(gradients("Clip", {x}, {{"min", -1.0}, {"max", 1.0}})[0], {0, 0, 1, 1, 1, 1});
  expect_numbers(gradients("Clip", {x}, {{"min", -1.0}, {"max", 1.0}, {"open", int64_t{1}}})[0],
                 {0, 0, 1, 1, 0, 0});
  expect_numbers(gradients("Clip", {{NAN, 0}}, {{"min", 0.0}, {"open", int64_t{1}}})[0], {1, 0});
  expect_numbers(gradients("Elu", {{NAN, 0, 1}}, {{"alpha", 2.0}})[0], {1, 2, 1});
  expect_numbers(gradients("HardSwish", {{NAN, -3, 3, 0}})[0], {1, 0, 1, 0.5});
  expect_numbers(gradients("Abs", {x})[0], {-1, 1, 0, 0, 1, -1});
  expect_numbers(gradients("Relu", {x})[0], {0, 1, 0, 0, 1, 0});
  expect_numbers(gradients("LeakyRelu", {x}, {{"alpha", 0.25}})[0], {0.25, 1, 0.25, 0.25, 1, 0.25});
  expect_numbers(gradients("Elu", {x}, {{"alpha", 0.5}})[0],
                 {0.5 * std::exp(-3), 1, 0.5, 0.5, 1, 0.5 * std::exp(-1)});
  expect_numbers(gradients("HardSwish", {x})[0], {0, 1, 0.5, 0.5, 5.0 / 6, 1.0 / 6});
  expect_numbers(gradients("HardSigmoid", {{-2, 2, 0}}, {{"alpha", 0.25}, {"beta", 0.5}})[0],
                 {0, 0, 0.25});
}

TEST(Edges, LogSumExpOfLargeNumbersIsASoftmax) {
  expect_numbers(gradients("ReduceLogSumExp", {{1000, 1000}}, {{"axes", ir::Dims{0}}})[0],
                 {0.5, 0.5});
}

}  // namespace
}  // namespace lowtide::autodiff
