// Every gradient rule against finite differences, on random instances of every differentiable row
// of the op table.
#include <gtest/gtest.h>

#include "autodiff/rule.h"
#include "ops/testing/random_instance.h"
#include "support/gradient_oracle.h"

namespace lowtide::autodiff {
namespace {

std::vector<std::string_view> differentiable_kinds() {
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : ops::kinds())
    if (!ops::traits(*ops::find(kind)).gradient.empty()) kinds.push_back(kind);
  return kinds;
}

TEST(Rules, EveryGradientHasARule) {
  ASSERT_GT(differentiable_kinds().size(), 50u);
  for (const std::string_view kind : differentiable_kinds())
    EXPECT_TRUE(rules().contains(ops::traits(*ops::find(kind)).gradient)) << kind;
}

// Inputs that are constants by definition: frozen statistics, the target of a loss.
bool constant_input(std::string_view kind, size_t i) {
  return (kind == "BatchNormInference" && i >= 3) || (kind == "MseLoss" && i == 1);
}

ref::Tensor random_tensor(const ops::Type& type, const ops::InputValues& values, Rng& rng) {
  ref::Sizes dims;
  for (const sym::Expr& dim : type.dims) dims.push_back(*dim.constant());
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, dims);
  const std::vector<double> drawn = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < drawn.size(); ++e) {
    if (tensor.real()) {
      tensor.f[e] = drawn[e];
    } else {
      tensor.i[e] = static_cast<int64_t>(drawn[e]);
    }
  }
  return tensor;
}

// True when the instance could be checked: it computes floats from floats.
bool check_instance(const ops::RandomInstance& random, Rng& rng) {
  GraphWriter writer;
  std::vector<ir::ValueId> inputs, wrt;
  for (size_t i = 0; i < random.inputs.size(); ++i) {
    if (!random.inputs[i]) {
      inputs.push_back(ir::ValueId::none());
      continue;
    }
    inputs.push_back(writer.leaf("in" + std::to_string(i),
                                 random_tensor(*random.inputs[i], random.values[i], rng)));
    if (is_float(random.inputs[i]->dtype) && !constant_input(random.kind, i))
      wrt.push_back(inputs.back());
  }
  const ir::ValueId y = writer.op(random.kind, inputs, random.attrs);
  if (wrt.empty() || !y.valid() || !is_float(writer.graph.value(y).dtype)) return false;
  expect_gradients(writer, writer.scalarise(y), wrt);
  return true;
}

class RuleTest : public testing::TestWithParam<std::string_view> {};

TEST_P(RuleTest, AgreesWithFiniteDifferences) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    auto random = ops::random_instance(GetParam(), rng);
    ASSERT_TRUE(random.has_value()) << random.error().message;
    if (GetParam() == "Cast") {  // the only one whose gradient wants a certain pair of types
      random->inputs[0]->dtype = DType::kF32;
      random->attrs.insert_or_assign("to", std::string("f64"));
    }
    if (const auto word = random->attrs.find("reduction"); word != random->attrs.end())
      // The others have no gradient.
      if (word->second != ir::AttrValue(std::string("none")) &&
          word->second != ir::AttrValue(std::string("add")))
        continue;
    checked += check_instance(*random, rng);
    if (HasFailure()) return;
  }
  EXPECT_GE(checked, 2);
}

INSTANTIATE_TEST_SUITE_P(AllKinds, RuleTest, testing::ValuesIn(differentiable_kinds()),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace lowtide::autodiff
