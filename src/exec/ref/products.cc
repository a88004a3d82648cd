// Matrix products and convolutions. A convolution and its two gradients are the same sum of
// products over (x, w, y) triples; only what is added into differs.
#include "exec/ref/kernels.h"
#include "exec/ref/windows.h"

namespace lowtide::ref {
namespace {

// ---- MatMul

// How one operand is walked: element = batch + row * row_stride + column * column_stride.
struct Matrix {
  Sizes batch_strides;
  int64_t row = 0, column = 0;

  Matrix(const Sizes& dims, bool transposed, const Sizes& batch) {
    const size_t rank = dims.size();
    const int64_t area = dims[rank - 1] * dims[rank - 2];
    batch_strides = broadcast_strides(Sizes(dims.begin(), dims.end() - 2), batch);
    for (int64_t& stride : batch_strides) stride *= area;
    row = transposed ? 1 : dims[rank - 1];
    column = transposed ? dims[rank - 1] : 1;
  }
};

struct MatMulKernel {
  template <class T>
  static void run(Call& call) {
    call.out[0].real() ? multiply<T>(call) : multiply<uint64_t>(call);
  }

 private:
  template <class T>
  static void multiply(Call& call) {
    const Tensor &a = *call.in[0], &b = *call.in[1];
    const Tensor* bias = call.input(2);
    Tensor& c = call.out[0];
    const bool trans_a = call.attrs.integer("trans_a") != 0;
    const size_t rank = c.dims.size();
    const Sizes batch(c.dims.begin(), c.dims.end() - 2);
    const Matrix am(a.dims, trans_a, batch);
    const Matrix bm(b.dims, call.attrs.integer("trans_b") != 0, batch);
    const int64_t rows = c.dims[rank - 2], columns = c.dims[rank - 1];
    const int64_t depth = a.dims[a.dims.size() - (trans_a ? 2 : 1)];
    for (Odometer at(batch); at.live(); at.next()) {
      const int64_t a0 = at.dot(am.batch_strides), b0 = at.dot(bm.batch_strides);
      for (int64_t m = 0; m < rows; ++m)
        for (int64_t n = 0; n < columns; ++n) {
          const int64_t e = (at.flat() * rows + m) * columns + n;
          T sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += get<T>(a, a0 + m * am.row + k * am.column) *
                   get<T>(b, b0 + k * bm.row + n * bm.column);
          if (bias) sum += get<T>(*bias, n);
          set<T>(c, e, sum);
        }
    }
  }
};

// ---- convolutions

// Elements of the data x [n c s..], the weights w [k c/g r..] and the result y [n k o..] that meet
// in one product.
struct Meeting {
  int64_t x, w, y;
};

template <class Use>
void for_each_product(const Attributes& attrs, const Sizes& x, const Sizes& w, const Sizes& y,
                      const Use& use) {
  const Windows windows(attrs, spatial(x), spatial(y), spatial(w));
  const int64_t groups = attrs.integer("group", 1);
  const int64_t per_group_in = w[1], per_group_out = w[0] / groups;
  const int64_t xs = product(windows.input), ws = product(windows.kernel),
                ys = product(windows.output);
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t k = 0; k < w[0]; ++k)
      for (int64_t c = 0; c < per_group_in; ++c) {
        const int64_t channel = k / per_group_out * per_group_in + c;
        windows.for_each([&](int64_t out, int64_t tap, int64_t in) {
          use(Meeting{(n * x[1] + channel) * xs + in, (k * per_group_in + c) * ws + tap,
                      (n * w[0] + k) * ys + out});
        });
      }
}

// Adds bias[channel] to every element of [n c s..].
template <class T>
void add_bias(Tensor& y, const Tensor* bias) {
  if (!bias) return;
  const Around split = around(y.dims, 1);
  for (int64_t e = 0; e < y.count(); ++e) add<T>(y, e, get<T>(*bias, e / split.inner % split.axis));
}

struct ConvKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &w = *call.in[1];
    Tensor& y = call.out[0];
    for_each_product(call.attrs, x.dims, w.dims, y.dims,
                     [&](Meeting m) { add<T>(y, m.y, get<T>(x, m.x) * get<T>(w, m.w)); });
    add_bias<T>(y, call.input(2));
  }
};

struct ConvDataGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &w = *call.in[1];
    Tensor& dx = call.out[0];
    for_each_product(call.attrs, dx.dims, w.dims, dy.dims,
                     [&](Meeting m) { add<T>(dx, m.x, get<T>(dy, m.y) * get<T>(w, m.w)); });
    add_bias<T>(dx, call.input(2));
  }
};

struct ConvWgtGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &dy = *call.in[1];
    Tensor& dw = call.out[0];
    for_each_product(call.attrs, x.dims, dw.dims, dy.dims,
                     [&](Meeting m) { add<T>(dw, m.w, get<T>(x, m.x) * get<T>(dy, m.y)); });
  }
};

}  // namespace

void add_products(KernelTable& table) {
  table["MatMul"] = kernel<MatMulKernel>();
  table["Conv"] = kernel<ConvKernel>();
  table["ConvDataGrad"] = kernel<ConvDataGradKernel>();
  table["ConvWgtGrad"] = kernel<ConvWgtGradKernel>();
}

}  // namespace lowtide::ref
