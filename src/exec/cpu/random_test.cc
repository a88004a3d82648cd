// Dropout and RandomUniform draw by an element's position in the whole tensor: a part of a tensor
// that was split (attributes whole_dims and part_begin) gets the draws of its place, in any layout,
// and they are those of base/philox.h.
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/describe.h"
#include "base/element.h"
#include "base/philox.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

constexpr runtime::StepContext kStep{.seed = 0xFEDCBA9876543210u, .step = 7};
constexpr int64_t kStream = 5;
constexpr double kRatio = 0.4;

plan::TensorDesc tensor(Dims dims, Layout layout = {}) {
  return {.dtype = DType::kF32, .dims = std::move(dims), .layout = std::move(layout)};
}

// What the kernel makes of ones (Dropout) or of nothing (RandomUniform), in the order of memory.
std::vector<float> run(const std::string& kind, const plan::TensorDesc& type, plan::Attrs attrs) {
  attrs["stream"] = kStream;
  plan::OpDesc op{.kind = kind, .attrs = std::move(attrs), .inputs = {type}, .outputs = {type}};
  if (kind == "Dropout")
    op.attrs["ratio"] = kRatio;
  else
    op.inputs = {tensor({static_cast<int64_t>(type.dims.size())})};
  auto kernel = make_cpu_kernels({.threads = 2})->make(op);
  if (!kernel) {
    ADD_FAILURE() << kernel.error().message;
    return {};
  }
  const size_t count = static_cast<size_t>(plan::element_count(type));
  std::vector<float> x(count, 1.0f), y(count, -1.0f);
  void* in = x.data();
  void* out = y.data();
  (*kernel)->run({.inputs = std::span(&in, 1),
                  .outputs = std::span(&out, 1),
                  .workspace = nullptr,
                  .context = kStep});
  return y;
}

float drawn(const std::string& kind, int64_t position) {
  const RandomStream stream(kStep.seed, kStream, kStep.step);
  const float u = stream.uniform(static_cast<uint64_t>(position));
  if (kind == "RandomUniform") return u;
  return static_cast<double>(u) >= kRatio ? static_cast<float>(1 / (1 - kRatio)) : 0.0f;
}

class Random : public testing::TestWithParam<const char*> {};

TEST_P(Random, PartsOfATensorGetTheDrawsOfTheirPlace) {
  const Dims whole{3, 7, 6, 11};
  const struct {
    Dims begin, dims;
  } parts[] = {{{0, 0, 0, 0}, {3, 7, 6, 11}},
               {{1, 0, 0, 0}, {2, 7, 6, 11}},
               {{0, 2, 0, 0}, {3, 3, 6, 11}},
               {{1, 3, 2, 0}, {1, 2, 3, 11}},
               {{2, 6, 5, 9}, {1, 1, 1, 2}}};
  for (const auto& part : parts)
    for (const bool last : {false, true}) {
      const plan::TensorDesc type = tensor(part.dims, last ? Layout::channels_last(4) : Layout{});
      const std::vector<float> y =
          run(GetParam(), type, {{"whole_dims", whole}, {"part_begin", part.begin}});
      ASSERT_EQ(y.size(), static_cast<size_t>(plan::element_count(type)));
      const Dims& d = part.dims;
      for (int64_t n = 0; n < d[0]; ++n)
        for (int64_t c = 0; c < d[1]; ++c)
          for (int64_t h = 0; h < d[2]; ++h)
            for (int64_t w = 0; w < d[3]; ++w) {
              const int64_t at = last ? ((n * d[2] + h) * d[3] + w) * d[1] + c
                                      : ((n * d[1] + c) * d[2] + h) * d[3] + w;
              const int64_t position =
                  (((part.begin[0] + n) * whole[1] + part.begin[1] + c) * whole[2] + part.begin[2] +
                   h) *
                      whole[3] +
                  part.begin[3] + w;
              ASSERT_EQ(y[static_cast<size_t>(at)], drawn(GetParam(), position))
                  << "element " << n << ", " << c << ", " << h << ", " << w
                  << (last ? " channels last" : "");
            }
    }
}

TEST_P(Random, LongLinesDrawAcrossChunks) {
  const std::vector<float> y = run(GetParam(), tensor({1, 40003}),
                                   {{"whole_dims", Dims{2, 40003}}, {"part_begin", Dims{1, 0}}});
  ASSERT_EQ(y.size(), 40003u);
  for (int64_t i = 0; i < 40003; ++i)
    ASSERT_EQ(y[static_cast<size_t>(i)], drawn(GetParam(), 40003 + i)) << i;
}

// Other types draw the same: bit for bit what the reference executor computes in each.
TEST_P(Random, EveryFloatTypeHasTheSameDraws) {
  const auto factory = make_cpu_kernels({.threads = 1});
  for (const DType dtype : {DType::kF64, DType::kF16, DType::kBF16}) {
    const ref::Sizes dims{5, 401};
    ref::Tensor x = ref::Tensor::zeros(dtype, dims);
    for (size_t e = 0; e < x.f.size(); ++e)
      x.f[e] = rounded(dtype, std::sin(static_cast<double>(e)));
    ir::Attrs attrs{{"stream", kStream}};
    if (std::string(GetParam()) == "Dropout")
      attrs["ratio"] = kRatio;
    else
      attrs["low"] = -1.0, attrs["high"] = 2.0;
    const auto want =
        ref::evaluate(GetParam(), attrs, {x}, {.seed = kStep.seed, .step = kStep.step});
    ASSERT_TRUE(want) << want.error().message;
    const plan::TensorDesc type{.dtype = dtype, .dims = dims, .layout = {}};
    auto kernel = factory->make({.kind = GetParam(),
                                 .attrs = *analysis::describe(attrs, GetParam()),
                                 .inputs = {type},
                                 .outputs = {type}});
    ASSERT_TRUE(kernel) << kernel.error().message;
    const auto width = static_cast<size_t>(size_bytes(dtype));
    std::vector<char> in(x.f.size() * width), out(in.size());
    for (size_t e = 0; e < x.f.size(); ++e) write_real(dtype, x.f[e], in.data() + e * width);
    void* inputs[] = {in.data()};
    void* outputs[] = {out.data()};
    (*kernel)->run({.inputs = inputs, .outputs = outputs, .workspace = nullptr, .context = kStep});
    for (size_t e = 0; e < x.f.size(); ++e)
      ASSERT_EQ(read_real(dtype, out.data() + e * width), (*want)[0].f[e]) << name(dtype) << e;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Random, testing::Values("Dropout", "RandomUniform"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace lowtide::exec_cpu
