#include "exec/cpu/thin_product.h"

#include <utility>

#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrainProducts = 32768;  // multiply-adds per thread that are worth a thread

// One matrix of the batch with its strides.
struct Matrix {
  const float* data;
  int64_t row, column;
};

// Row r of the result. Along the summed extent in order, so the bits do not depend on threads.
void row(const Matrix& a, const Matrix& b, float* out, int64_t out_stride, int64_t r, int64_t k,
         int64_t n) {
  for (int64_t i = 0; i < k; ++i) {
    const float scale = a.data[r * a.row + i * a.column];
    const float* from = b.data + i * b.row;
    for (int64_t j = 0; j < n; ++j) out[j * out_stride] += scale * from[j * b.column];
  }
}

// The element (r, 0) of the result, for results of one column.
float dot(const Matrix& a, const Matrix& b, int64_t r, int64_t k) {
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += a.data[r * a.row + i * a.column] * b.data[i * b.row];
  return sum;
}

// Where matrix number `index` of c's batch begins in x; broadcast dims do not move.
int64_t batch_offset(const StridedMatrix& x, const StridedMatrix& c, int64_t index) {
  int64_t offset = 0;
  for (size_t d = c.dims.size() - 2; d-- > 0;) {
    if (x.dims[d] != 1) offset += index % c.dims[d] * x.strides[d];
    index /= c.dims[d];
  }
  return offset;
}

struct Product {
  StridedMatrix a, b, c;
  int64_t m, n, k, batch;
  bool biased, accumulates;

  void run(const KernelArgs& args) const {
    const int64_t grain = kGrainProducts / std::max<int64_t>(1, n * k);
    parallel_ranges(batch * m, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one_row(args, i / m, i % m);
    });
  }

  void one_row(const KernelArgs& args, int64_t index, int64_t r) const {
    const Matrix from_a{static_cast<const float*>(args.inputs[0]) + batch_offset(a, c, index),
                        a.strides[a.dims.size() - 2], a.strides.back()};
    const Matrix from_b{static_cast<const float*>(args.inputs[1]) + batch_offset(b, c, index),
                        b.strides[b.dims.size() - 2], b.strides.back()};
    const int64_t step = c.strides.back();
    const int64_t start = batch_offset(c, c, index) + r * c.strides[c.dims.size() - 2];
    float* out = static_cast<float*>(args.outputs[0]) + start;
    const float* bias = biased ? static_cast<const float*>(args.inputs[2]) : nullptr;
    const float* sum = accumulates ? static_cast<const float*>(args.inputs[3]) + start : nullptr;
    for (int64_t j = 0; j < n; ++j)
      out[j * step] = (bias != nullptr ? bias[j] : 0.0f) + (sum != nullptr ? sum[j * step] : 0.0f);
    if (n == 1) {
      *out += dot(from_a, from_b, r, k);
    } else {
      row(from_a, from_b, out, step, r, k, n);
    }
  }
};

}  // namespace

bool is_thin(const StridedMatrix& a, const StridedMatrix& c) {
  return c.dims[c.dims.size() - 2] <= 1 || c.dims.back() <= 1 || a.dims.back() <= 1;
}

Built make_thin_product(const OpDesc& op, StridedMatrix a, StridedMatrix b, StridedMatrix c) {
  Product product{std::move(a),     std::move(b),    std::move(c), 0, 0, 0, 1,
                  has_input(op, 2), has_input(op, 3)};
  const size_t rank = product.c.dims.size();
  product.m = product.c.dims[rank - 2];
  product.n = product.c.dims[rank - 1];
  product.k = product.a.dims[rank - 1];
  for (size_t d = 0; d + 2 < rank; ++d) product.batch *= product.c.dims[d];
  Built built;
  built.implementation = "own:thin";
  built.run = [product](const KernelArgs& args) { product.run(args); };
  return built;
}

}  // namespace lowtide::exec_cpu
