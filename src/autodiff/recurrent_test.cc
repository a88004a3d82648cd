// Gradients of the recurrent networks through any of their results: the sequence, the last states,
// both, or none of one, against finite differences, on random instances with sequences of any
// length. (The test of all rules goes through the sequence alone.)
#include <gtest/gtest.h>

#include "ops/testing/random_instance.h"
#include "support/gradient_oracle.h"

namespace lowtide::autodiff {
namespace {

struct Network {
  std::string_view kind;
  size_t results;  // that training may read: y, yh and, of an LSTM, yc
};

class Recurrent : public testing::TestWithParam<Network> {};

ref::Tensor drawn(const ops::Type& type, const ops::InputValues& values, Rng& rng) {
  ref::Sizes dims;
  for (const sym::Expr& dim : type.dims) dims.push_back(*dim.constant());
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, dims);
  const std::vector<double> numbers = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < numbers.size(); ++e) {
    if (tensor.real())
      tensor.f[e] = numbers[e];
    else
      tensor.i[e] = static_cast<int64_t>(numbers[e]);
  }
  return tensor;
}

TEST_P(Recurrent, PassesGradientsThroughEveryResult) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto random = ops::random_instance(GetParam().kind, rng);
    ASSERT_TRUE(random) << random.error().message;
    GraphWriter writer;
    std::vector<ir::ValueId> inputs, wrt;
    for (size_t i = 0; i < random->inputs.size(); ++i) {
      inputs.push_back(ir::ValueId::none());
      if (!random->inputs[i]) continue;
      inputs.back() =
          writer.leaf("in" + std::to_string(i), drawn(*random->inputs[i], random->values[i], rng));
      if (is_float(random->inputs[i]->dtype)) wrt.push_back(inputs.back());
    }
    const auto results = writer.ops(GetParam().kind, inputs, random->attrs);
    const uint64_t read = 1 + rng.below((1u << GetParam().results) - 1);
    ir::ValueId loss = ir::ValueId::none();
    for (size_t o = 0; o < GetParam().results; ++o) {
      if ((read >> o & 1) == 0) continue;
      const ir::ValueId part = writer.scalarise(results[o]);
      loss = loss.valid() ? writer.op("Add", {loss, part}) : part;
    }
    expect_gradients(writer, loss, wrt);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Recurrent,
                         testing::Values(Network{"LstmTrain", 3}, Network{"GruTrain", 2},
                                         Network{"Rnn", 2}),
                         [](const auto& tested) { return std::string(tested.param.kind); });

TEST(RecurrentRefusals, AClipHasNoGradient) {
  GraphWriter writer;
  const ir::ValueId x = writer.leaf("x", {2, 1, 3}), r = writer.leaf("r", {1, 3, 3});
  const ir::ValueId y = writer.op(
      "Rnn", {x, r},
      {{"direction", std::string("forward")}, {"activations", std::string("tanh")}, {"clip", 0.5}},
      "rnn");
  const ir::ValueId loss = writer.scalarise(y);
  ir::Graph graph = writer.graph;
  const auto gradients = append_gradients(graph, loss, std::vector{x}, {});
  ASSERT_FALSE(gradients);
  EXPECT_NE(gradients.error().message.find("Rnn 'rnn': a clip of 0.5 has no gradient"),
            std::string::npos)
      << gradients.error().message;
}

}  // namespace
}  // namespace lowtide::autodiff
