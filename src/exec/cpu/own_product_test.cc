// MatMul over every combination of small extents, vectors and empty operands included, against the
// definition.
#include "exec/cpu/own_product.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "exec/cpu/cpu.h"

namespace lowtide::exec_cpu {
namespace {

struct Shape {
  int64_t batch, m, k, n;
  bool trans_a, trans_b, shared_b;
};

std::vector<float> random_values(int64_t count, Rng& rng) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.uniform() * 2 - 1);
  return values;
}

double expected(const Shape& s, const std::vector<float>& a, const std::vector<float>& b,
                int64_t batch, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < s.k; ++l) {
    const int64_t ai = batch * s.m * s.k + (s.trans_a ? l * s.m + i : i * s.k + l);
    const int64_t bi =
        (s.shared_b ? 0 : batch * s.k * s.n) + (s.trans_b ? j * s.k + l : l * s.n + j);
    sum += static_cast<double>(a[static_cast<size_t>(ai)]) *
           static_cast<double>(b[static_cast<size_t>(bi)]);
  }
  return sum;
}

void check(const Shape& s, const runtime::KernelFactory& kernels, Rng& rng) {
  const auto type = [](std::vector<int64_t> dims) {
    return plan::TensorDesc{.dtype = DType::kF32, .dims = std::move(dims), .layout = {}};
  };
  OpDesc op;
  op.kind = "MatMul";
  op.attrs = {{"trans_a", int64_t{s.trans_a}}, {"trans_b", int64_t{s.trans_b}}};
  std::vector<int64_t> b_dims =
      s.trans_b ? std::vector<int64_t>{s.n, s.k} : std::vector<int64_t>{s.k, s.n};
  if (!s.shared_b) b_dims.insert(b_dims.begin(), s.batch);
  op.inputs = {type(s.trans_a ? std::vector<int64_t>{s.batch, s.k, s.m}
                              : std::vector<int64_t>{s.batch, s.m, s.k}),
               type(b_dims), type({s.n}), type({s.batch, s.m, s.n})};
  op.outputs = {type({s.batch, s.m, s.n})};
  auto kernel = kernels.make(op);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  auto a = random_values(s.batch * s.m * s.k, rng);
  auto b = random_values((s.shared_b ? 1 : s.batch) * s.k * s.n, rng);
  auto bias = random_values(s.n, rng);
  const auto accumulator = random_values(s.batch * s.m * s.n, rng);
  std::vector<float> out = accumulator;
  std::vector<std::byte> workspace(static_cast<size_t>(kernels.workspace_bytes(op).value() + 64));
  const std::array<void*, 4> inputs{a.data(), b.data(), bias.data(), out.data()};
  const std::array<void*, 1> outputs{out.data()};
  (*kernel)->run(
      {.inputs = inputs, .outputs = outputs, .workspace = workspace.data(), .context = {}});
  for (int64_t i = 0; i < s.batch * s.m * s.n; ++i) {
    const auto at = static_cast<size_t>(i);
    const double want = expected(s, a, b, i / (s.m * s.n), i / s.n % s.m, i % s.n) +
                        static_cast<double>(bias[static_cast<size_t>(i % s.n)]) +
                        static_cast<double>(accumulator[at]);
    ASSERT_NEAR(static_cast<double>(out[at]), want, 1e-5)
        << s.batch << ' ' << s.m << ' ' << s.k << ' ' << s.n;
  }
}

TEST(ThinProduct, EveryCombinationOfSmallExtents) {
  const auto kernels = make_cpu_kernels();
  Rng rng(1);
  for (int64_t batch : {1, 3})
    for (int64_t m : {0, 1, 2, 5})
      for (int64_t k : {0, 1, 2, 7})
        for (int64_t n : {0, 1, 2, 6})
          for (int flags = 0; flags < 8; ++flags)
            check({batch, m, k, n, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0}, *kernels,
                  rng);
}

}  // namespace
}  // namespace lowtide::exec_cpu
