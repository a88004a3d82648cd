// Every kernel against the reference executor in double precision, on instances that the op table
// generates: row-major, channels last, random permutations of each operand, the layouts that the
// kernel wishes for, in place, and with one and two threads. The same on every element type, with
// special values, and which combinations are refused: every_type_test.cc.
#include <gtest/gtest.h>

#include <cstring>

#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

float taken(const Guarded& memory, int64_t at) {
  float value;
  std::memcpy(&value, memory.data() + at * static_cast<int64_t>(sizeof(float)), sizeof(float));
  return value;
}

class EveryKernel : public testing::TestWithParam<std::string> {
 protected:
  // Cases that ran; 0 when the kernel takes none in this form.
  int run(Form form, int count) {
    const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
    Rng rng(std::hash<std::string>()(GetParam()) + static_cast<uint64_t>(form));
    int ran = 0;
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const std::optional<Case> c = make_case(GetParam(), {}, rng);
      if (!c) continue;
      const OpDesc op = in_form(*one, c->desc, form, rng);
      const auto workspace = one->workspace_bytes(op);
      if (!workspace) {
        EXPECT_NE(workspace.error().message.find(GetParam()), std::string::npos);
        last_refusal_ = workspace.error().message;
        continue;
      }
      ++ran;
      SCOPED_TRACE(describe(op));
      check_case(*c, op, *one, *two);
    }
    return ran;
  }

  std::string last_refusal_;
};

TEST_P(EveryKernel, EqualsTheReferenceInRowMajorOrder) {
  const int ran = run(Form::kRowMajor, 40);
  if (GetParam().starts_with("Conv")) return;  // row-major is their fallback
  EXPECT_GT(ran, 15) << last_refusal_;
}
TEST_P(EveryKernel, EqualsTheReferenceInTheLayoutsItWishesFor) {
  EXPECT_GT(run(Form::kWished, 40), 15) << last_refusal_;
}
TEST_P(EveryKernel, EqualsTheReferenceInChannelsLastOrder) {
  run(Form::kChannelsLast, 40);
}
TEST_P(EveryKernel, EqualsTheReferenceInAnyOrderItTakes) {
  run(Form::kPermuted, 40);
}

// What oneDNN's own code for such windows computes in channels-last data is wrong where channels
// are few, and it writes behind its workspace.
TEST(Convolution, WindowsOfOnePixelWithStrides) {
  const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
  Rng rng(7);
  const auto type = [](ir::Dims dims) { return ops::Type{DType::kF32, std::move(dims), {}}; };
  for (const auto& [down, right] : {std::pair<int64_t, int64_t>{1, 2}, {2, 1}, {3, 2}})
    for (const int64_t channels : {1, 2, 3, 4, 6, 7, 8, 12, 16, 17})
      for (const int64_t filters : {3, 16}) {
        const ops::Type x = type({2, channels, 9, 12}), w = type({filters, channels, 1, 1}),
                        y = type({2, filters, (9 + down - 1) / down, (12 + right - 1) / right});
        const ir::Attrs strides = {{"strides", ir::Dims{down, right}}};
        ir::Attrs data = strides, weights = strides;
        data.emplace("output_spatial", ir::Dims{9, 12});
        weights.emplace("kernel", ir::Dims{1, 1});
        for (const ops::RandomInstance& made :
             {ops::RandomInstance{"Conv", strides, {x, w, std::nullopt}, {{}, {}, {}}},
              ops::RandomInstance{"ConvDataGrad", data, {y, w, std::nullopt}, {{}, {}, {}}},
              ops::RandomInstance{"ConvWgtGrad", weights, {x, y, std::nullopt}, {{}, {}, {}}}}) {
          const std::optional<Case> c = case_of(made, {}, rng);
          ASSERT_TRUE(c);
          const OpDesc op = in_form(*one, c->desc, Form::kWished, rng);
          SCOPED_TRACE(describe(op));
          check_case(*c, op, *one, *two);
          if (HasFailure()) return;
        }
      }
}

// Weights of many small groups, in blocks of channels, would be padding almost alone; a step of
// such a network would need many times its bytes.
TEST(Convolution, WishesNoLayoutThatIsMostlyPadding) {
  const auto kernels = make_cpu_kernels({.threads = 1});
  int checked = 0;
  for (const int64_t in_group : {1, 2, 4, 8})
    for (const int64_t window : {3, 5, 7})
      for (const int64_t stride : {1, 2})
        for (const std::string kind : {"Conv", "ConvDataGrad", "ConvWgtGrad"}) {
          const int64_t group = 96 / in_group, size = 8 / stride, pad = window / 2;
          const TensorDesc data{.dtype = DType::kF32, .dims = {2, 96, 8, 8}, .layout = {}};
          const TensorDesc result{.dtype = DType::kF32, .dims = {2, 96, size, size}, .layout = {}};
          const TensorDesc weights{
              .dtype = DType::kF32, .dims = {96, in_group, window, window}, .layout = {}};
          OpDesc op{.kind = kind,
                    .attrs = {{"group", group},
                              {"strides", std::vector<int64_t>{stride, stride}},
                              {"pads", std::vector<int64_t>{pad, pad, pad, pad}}},
                    .inputs = {data, weights, std::nullopt},
                    .outputs = {result}};
          if (kind == "ConvDataGrad") op.inputs[0] = result, op.outputs[0] = data;
          if (kind == "ConvWgtGrad") op.inputs[1] = result, op.outputs[0] = weights;
          SCOPED_TRACE(describe(op));
          const plan::LayoutWish wish = kernels->wish(op);
          ASSERT_EQ(wish.outputs.size(), 1u);
          TensorDesc wished = weights;
          wished.layout = kind == "ConvWgtGrad" ? wish.outputs[0] : wish.inputs[1];
          EXPECT_LE(size_bytes(wished), 4 * size_bytes(weights));
          for (size_t i = 0; i < 2; ++i) op.inputs[i]->layout = wish.inputs[i];
          op.outputs[0].layout = wish.outputs[0];
          EXPECT_TRUE(kernels->make(op).has_value());
          ++checked;
        }
  EXPECT_EQ(checked, 72);
}

// Large enough, and with rows far enough apart, for the form that copies strips of the right
// operand.
TEST(MatMul, MultipliesByStripsOfTheRightOperand) {
  const int64_t k = 259, m = 300, n = 1024;
  const auto factory = make_cpu_kernels();
  Rng rng(5);
  auto draw = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(rng.uniform()) - 0.5f;
    return values;
  };
  const std::vector<float> a = draw(k * m), b = draw(k * n), acc = draw(m * n);
  auto bytes = [](const std::vector<float>& values) {
    Guarded copy(static_cast<int64_t>(values.size() * sizeof(float)));
    std::memcpy(copy.data(), values.data(), values.size() * sizeof(float));
    return copy;
  };
  auto type = [](int64_t rows, int64_t cols) {
    return TensorDesc{.dtype = DType::kF32, .dims = {rows, cols}, .layout = {}};
  };
  for (bool accumulates : {false, true}) {
    OpDesc op{.kind = "MatMul",
              .attrs = {{"trans_a", int64_t{1}}},
              .inputs = {type(k, m), type(k, n), std::nullopt, std::nullopt},
              .outputs = {type(m, n)}};
    if (accumulates) op.inputs[3] = type(m, n);
    Guarded left = bytes(a), right = bytes(b), sum = bytes(acc), out(sum.size());
    Guarded* result = accumulates ? &sum : &out;
    run_kernel(*factory, op, {&left, &right, nullptr, accumulates ? &sum : nullptr}, {result});
    for (int64_t i = 0; i < m; i += 7)
      for (int64_t j = 0; j < n; j += 11) {
        double want = accumulates ? static_cast<double>(acc[static_cast<size_t>(i * n + j)]) : 0.0;
        for (int64_t l = 0; l < k; ++l)
          want += static_cast<double>(a[static_cast<size_t>(l * m + i)]) *
                  static_cast<double>(b[static_cast<size_t>(l * n + j)]);
        ASSERT_NEAR(static_cast<double>(taken(*result, i * n + j)), want, 1e-4);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryKernel, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace lowtide::exec_cpu
