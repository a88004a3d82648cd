// Pooling and its gradients. A maximum remembers the tap it came from, so its gradient needs
// neither x nor y.
#include <limits>

#include "exec/ref/kernels.h"
#include "exec/ref/windows.h"

namespace lowtide::ref {
namespace {

// One Windows for all [n c] planes; `input` and `output` are whole dims.
struct Planes {
  Windows windows;
  int64_t count, input_size, output_size;

  Planes(const Attributes& attrs, const Sizes& input, const Sizes& output)
      : windows(attrs, spatial(input), spatial(output), attrs.list("kernel")),
        count(input[0] * input[1]),
        input_size(product(windows.input)),
        output_size(product(windows.output)) {}
};

struct MaxPoolKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor &y = call.out[0], &index = call.out[1];
    const Planes planes(call.attrs, x.dims, y.dims);
    for (int64_t e = 0; e < y.count(); ++e)
      set<double>(y, e, -std::numeric_limits<double>::infinity());
    for (int64_t p = 0; p < planes.count; ++p)
      planes.windows.for_each([&](int64_t out, int64_t tap, int64_t in) {
        const int64_t e = p * planes.output_size + out;
        const T value = get<T>(x, p * planes.input_size + in);
        if (value <= get<T>(y, e)) return;
        set<T>(y, e, value);
        set_int(index, e, tap);
      });
  }
};

struct MaxPoolGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &index = *call.in[1];
    Tensor& dx = call.out[0];
    const Planes planes(call.attrs, dx.dims, dy.dims);
    for (int64_t p = 0; p < planes.count; ++p)
      planes.windows.for_each([&](int64_t out, int64_t tap, int64_t in) {
        const int64_t e = p * planes.output_size + out;
        if (int_at(index, e) == tap) add<T>(dx, p * planes.input_size + in, get<T>(dy, e));
      });
  }
};

// What each output position is divided by.
Sizes divisors(const Call& call, const Windows& windows) {
  Sizes counts(static_cast<size_t>(product(windows.output)), 0);
  if (call.attrs.integer("count_include_pad") != 0) {
    for (Odometer out(windows.output); out.live(); out.next())
      counts[static_cast<size_t>(out.flat())] = windows.padded_taps(out);
  } else {
    windows.for_each([&](int64_t out, int64_t, int64_t) { ++counts[static_cast<size_t>(out)]; });
  }
  return counts;
}

struct AvgPoolKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const Planes planes(call.attrs, x.dims, y.dims);
    const Sizes counts = divisors(call, planes.windows);
    for (int64_t p = 0; p < planes.count; ++p) {
      const int64_t first = p * planes.output_size;
      planes.windows.for_each([&](int64_t out, int64_t, int64_t in) {
        add<T>(y, first + out, get<T>(x, p * planes.input_size + in));
      });
      for (int64_t out = 0; out < planes.output_size; ++out)
        set<T>(y, first + out,
               get<T>(y, first + out) / static_cast<T>(counts[static_cast<size_t>(out)]));
    }
  }
};

struct AvgPoolGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& dy = *call.in[0];
    Tensor& dx = call.out[0];
    const Planes planes(call.attrs, dx.dims, dy.dims);
    const Sizes counts = divisors(call, planes.windows);
    for (int64_t p = 0; p < planes.count; ++p)
      planes.windows.for_each([&](int64_t out, int64_t, int64_t in) {
        add<T>(dx, p * planes.input_size + in,
               get<T>(dy, p * planes.output_size + out) /
                   static_cast<T>(counts[static_cast<size_t>(out)]));
      });
  }
};

}  // namespace

void add_pooling(KernelTable& table) {
  table["MaxPool"] = kernel<MaxPoolKernel>();
  table["MaxPoolGrad"] = kernel<MaxPoolGradKernel>();
  table["AvgPool"] = kernel<AvgPoolKernel>();
  table["AvgPoolGrad"] = kernel<AvgPoolGradKernel>();
}

}  // namespace lowtide::ref
