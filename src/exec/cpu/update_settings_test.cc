// Updates whose numbers the session says in place of the op's attributes: Nesterov's momentum,
// Adam's decay, steps that were counted elsewhere, in f32 and f64, held against the formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/cpu/cpu.h"
#include "runtime/kernel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kElements = 19;  // no multiple of a vector's width

double start_of(int operand, int64_t i) {
  const double value = std::sin(static_cast<double>(i * 4 + operand + 1));
  return operand == 3 ? std::abs(value) : value;  // v is a mean of squares
}

// Runs one update on `operands` (parameter, gradient, states), which it changes.
template <class T>
std::vector<std::vector<T>> updated(const std::string& kind, int operands,
                                    const runtime::UpdateSettings& settings) {
  plan::OpDesc op;
  op.kind = kind;
  op.attrs = {{"learning_rate", 9.0}, {"momentum", 0.5}};
  if (kind == "AdamWUpdate")
    op.attrs = {{"learning_rate", 9.0}, {"beta1", 0.1}, {"beta2", 0.1}, {"epsilon", 1.0}};
  plan::TensorDesc type;
  type.dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  type.dims = {kElements};
  std::vector<std::vector<T>> values(static_cast<size_t>(operands), std::vector<T>(kElements));
  std::vector<void*> inputs, outputs;
  for (int o = 0; o < operands; ++o) {
    auto& value = values[static_cast<size_t>(o)];
    for (int64_t i = 0; i < kElements; ++i)
      value[static_cast<size_t>(i)] = static_cast<T>(start_of(o, i));
    op.inputs.emplace_back(type);
    inputs.push_back(value.data());
    if (o == 1) continue;
    op.outputs.push_back(type);
    outputs.push_back(value.data());
  }
  const auto kernels = make_cpu_kernels({.threads = 1});
  auto kernel = kernels->make(op);
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().message);
  if (kernel)
    (*kernel)->run({.inputs = inputs, .outputs = outputs, .context = {.update = &settings}});
  return values;
}

template <class T>
void expect_sgd(bool nesterov) {
  const runtime::UpdateSettings now{
      .learning_rate = 0.1, .weight_decay = 0.01, .momentum = 0.9, .nesterov = nesterov};
  const auto values = updated<T>("SgdUpdate", 3, now);
  for (int64_t i = 0; i < kElements; ++i) {
    const double p = start_of(0, i), g = start_of(1, i) + 0.01 * p, b = 0.9 * start_of(2, i) + g;
    const auto at = static_cast<size_t>(i);
    EXPECT_NEAR(values[2][at], b, 1e-6);
    EXPECT_NEAR(values[0][at], p - 0.1 * (nesterov ? g + 0.9 * b : b), 1e-6);
  }
}

template <class T>
void expect_adam(bool coupled) {
  const runtime::UpdateSettings now{.learning_rate = 0.1,
                                    .weight_decay = 0.01,
                                    .beta1 = 0.9,
                                    .beta2 = 0.99,
                                    .epsilon = 1e-8,
                                    .step = 7,
                                    .coupled = coupled};
  const auto values = updated<T>("AdamWUpdate", 4, now);
  for (int64_t i = 0; i < kElements; ++i) {
    const double start = start_of(0, i), g = start_of(1, i) + (coupled ? 0.01 * start : 0);
    const double m = 0.9 * start_of(2, i) + 0.1 * g, v = 0.99 * start_of(3, i) + 0.01 * g * g;
    const double root = std::sqrt(v / (1 - std::pow(0.99, 7))) + 1e-8;
    const double p = coupled ? start : start * (1 - 0.1 * 0.01);
    const auto at = static_cast<size_t>(i);
    EXPECT_NEAR(values[2][at], m, 1e-6);
    EXPECT_NEAR(values[3][at], v, 1e-6);
    EXPECT_NEAR(values[0][at], p - 0.1 * m / (1 - std::pow(0.9, 7)) / root, 2e-6);
  }
}

TEST(UpdateSettings, SgdFollowsTheFormulaOfNow) {
  for (const bool nesterov : {false, true}) {
    expect_sgd<float>(nesterov);
    expect_sgd<double>(nesterov);
  }
}

TEST(UpdateSettings, AdamFollowsTheFormulaOfNow) {
  for (const bool coupled : {false, true}) {
    expect_adam<float>(coupled);
    expect_adam<double>(coupled);
  }
}

}  // namespace
}  // namespace lowtide::exec_cpu
