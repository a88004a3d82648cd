// Pooling and its gradients. A maximum remembers the tap it came from, so its gradient needs
// neither x nor y.
#include <algorithm>
#include <cmath>
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
    for (int64_t e = 0; e < y.count(); ++e) set_lowest(y, e);
    for (int64_t p = 0; p < planes.count; ++p)
      planes.windows.for_each([&](int64_t out, int64_t tap, int64_t in) {
        const int64_t e = p * planes.output_size + out, from = p * planes.input_size + in;
        if (!wins<T>(x, from, y, e)) return;
        copy_element(y, e, x, from);
        set_int(index, e, tap);
      });
  }

 private:
  // The first maximum stays; a NaN wins over all numbers and the first NaN stays.
  template <class T>
  static bool wins(const Tensor& x, int64_t from, const Tensor& y, int64_t e) {
    if (!x.real()) return int_less(x.dtype, int_at(y, e), int_at(x, from));
    const T value = get<T>(x, from), best = get<T>(y, e);
    return value > best || (std::isnan(value) && !std::isnan(best));
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

// The tap as a position in the whole of x: row-major, or with the first spatial dim running
// fastest.
struct MaxPoolPositionsKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& index = *call.in[0];
    const Sizes input = call.attrs.list("input_spatial");
    Sizes whole = {index.dims[0], index.dims[1]};
    whole.insert(whole.end(), input.begin(), input.end());
    const Planes planes(call.attrs, whole, index.dims);
    const bool columns = call.attrs.integer("columns_first") != 0;
    for (int64_t p = 0; p < planes.count; ++p)
      planes.windows.for_each([&](int64_t out, int64_t tap, int64_t in) {
        const int64_t e = p * planes.output_size + out;
        if (int_at(index, e) != tap) return;
        int64_t place = in;
        if (columns) {
          place = 0;
          int64_t rest = in;
          Sizes at(input.size());
          for (size_t d = input.size(); d-- > 0; rest /= input[d]) at[d] = rest % input[d];
          for (size_t d = input.size(); d-- > 0;) place = place * input[d] + at[d];
        }
        set_int(call.out[0], e, p * planes.input_size + place);
      });
  }
};

// columns [n c taps.. places..] and image [n c pixels..]: use(pixel, column) for all that belong
// together, in elements of the whole tensors.
template <class Use>
void for_columns(const Call& call, const Sizes& columns, const Sizes& image, const Use& use) {
  const auto rank = static_cast<std::ptrdiff_t>(image.size()) - 2;
  const Windows windows(call.attrs, spatial(image), Sizes(columns.end() - rank, columns.end()),
                        Sizes(columns.begin() + 2, columns.begin() + 2 + rank));
  const int64_t pixels = product(windows.input), places = product(windows.output);
  const int64_t all = product(windows.kernel) * places;
  for (int64_t p = 0; p < image[0] * image[1]; ++p)
    windows.for_each([&](int64_t place, int64_t tap, int64_t pixel) {
      use(p * pixels + pixel, p * all + tap * places + place);
    });
}

struct ColumnsToImageKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    for_columns(call, x.dims, y.dims,
                [&](int64_t pixel, int64_t column) { add<T>(y, pixel, get<T>(x, column)); });
  }
};

struct ImageToColumnsKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& dy = *call.in[0];
    Tensor& dx = call.out[0];
    for_columns(call, dx.dims, dy.dims,
                [&](int64_t pixel, int64_t column) { set<T>(dx, column, get<T>(dy, pixel)); });
  }
};

// What each output position is divided by; the average of nothing is 0.
Sizes divisors(const Call& call, const Windows& windows) {
  Sizes counts(static_cast<size_t>(product(windows.output)), 0);
  if (call.attrs.has("divisor")) {
    for (int64_t& count : counts) count = call.attrs.integer("divisor");
  } else if (call.attrs.integer("count_include_pad") != 0) {
    for (Odometer out(windows.output); out.live(); out.next())
      counts[static_cast<size_t>(out.flat())] = windows.padded_taps(out);
  } else {
    windows.for_each([&](int64_t out, int64_t, int64_t) { ++counts[static_cast<size_t>(out)]; });
    for (int64_t& count : counts) count = std::max<int64_t>(count, 1);
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
  table["MaxPoolPositions"] = kernel<MaxPoolPositionsKernel>();
  table["AvgPool"] = kernel<AvgPoolKernel>();
  table["Col2Im"] = kernel<ColumnsToImageKernel>();
  table["Col2ImGrad"] = kernel<ImageToColumnsKernel>();
  table["AvgPoolGrad"] = kernel<AvgPoolGradKernel>();
}

}  // namespace lowtide::ref
