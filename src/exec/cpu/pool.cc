// Pooling with one to three spatial dims, row-major or channels last. A unit of work is one image's
// group of neighbouring channels (channels last) or one plane; a unit belongs to one thread, which
// makes the scatter of the gradients safe and its result independent of the number of threads.
// Channels are the vector dimension of the channels-last form.
//
// The index of a maximum is the flat tap number in its window (row-major over the kernel), the
// first one that is largest.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;
using Triple = std::array<int64_t, 3>;

// Everything as three spatial dims; missing ones are 1.
struct Pool {
  Triple in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, strides{1, 1, 1}, dilations{1, 1, 1},
      begin{0, 0, 0}, end{0, 0, 0};
  int64_t images = 1, channels = 1;
  bool channels_last = false;
  bool include_pad = false;
  int64_t divisor = 0;  // of an average; 0: the number of taps

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

Result<Pool> pool_of(const OpDesc& op, const TensorDesc& x, const TensorDesc& y) {
  const size_t rank = x.dims.size();
  if (rank < 3 || rank > 5 || y.dims.size() != rank)
    return unsupported(op, "one to three spatial dims");
  const size_t n = rank - 2, lead = 3 - n;
  const Dims kernel = list_attr(op, "kernel", {}), strides = list_attr(op, "strides", Dims(n, 1));
  const Dims dilations = list_attr(op, "dilations", Dims(n, 1)),
             pads = list_attr(op, "pads", Dims(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || pads.size() != 2 * n)
    return unsupported(op, "kernel, strides, dilations or pads do not match the spatial dims");
  Pool p{.images = x.dims[0], .channels = x.dims[1]};
  for (size_t d = 0; d < n; ++d) {
    p.in[lead + d] = x.dims[2 + d];
    p.out[lead + d] = y.dims[2 + d];
    p.kernel[lead + d] = kernel[d];
    p.strides[lead + d] = strides[d];
    p.dilations[lead + d] = dilations[d];
    p.begin[lead + d] = pads[d];
    p.end[lead + d] = pads[n + d];
  }
  if (p.kernel[0] * p.kernel[1] * p.kernel[2] > 256 && op.kind.starts_with("Max"))
    return unsupported(op, "a window of more than 256 elements");
  p.include_pad = int_attr(op, "count_include_pad", 0) != 0;
  p.divisor = int_attr(op, "divisor", 0);
  const Layout last = Layout::channels_last(rank);
  auto lies = [](const TensorDesc& t, const Layout& layout) {
    return same_order(t, {.dtype = t.dtype, .dims = t.dims, .layout = layout});
  };
  p.channels_last = !(lies(x, {}) && lies(y, {}));
  if (p.channels_last && !(lies(x, last) && lies(y, last)))
    return unsupported(op, "operands must both be row-major or both channels last");
  return p;
}

// Calls use(output element, tap, input element) for the taps of one output position that lie
// inside; flat spatial elements.
template <class Use>
void for_taps(const Pool& p, int64_t oz, int64_t oy, int64_t ox, const Use& use) {
  const int64_t o = (oz * p.out[1] + oy) * p.out[2] + ox;
  int64_t tap = 0;
  for (int64_t kz = 0; kz < p.kernel[0]; ++kz) {
    const int64_t iz = oz * p.strides[0] + kz * p.dilations[0] - p.begin[0];
    for (int64_t ky = 0; ky < p.kernel[1]; ++ky) {
      const int64_t iy = oy * p.strides[1] + ky * p.dilations[1] - p.begin[1];
      for (int64_t kx = 0; kx < p.kernel[2]; ++kx, ++tap) {
        const int64_t ix = ox * p.strides[2] + kx * p.dilations[2] - p.begin[2];
        if (iz < 0 || iz >= p.in[0] || iy < 0 || iy >= p.in[1] || ix < 0 || ix >= p.in[2]) continue;
        use(o, tap, (iz * p.in[1] + iy) * p.in[2] + ix);
      }
    }
  }
}

template <class Use>
void for_outputs(const Pool& p, const Use& use) {
  for (int64_t oz = 0; oz < p.out[0]; ++oz)
    for (int64_t oy = 0; oy < p.out[1]; ++oy)
      for (int64_t ox = 0; ox < p.out[2]; ++ox) use(oz, oy, ox);
}

// A run of `width` neighbouring channels of one image: element e of the plane lies at base + e *
// step.
struct Slab {
  int64_t in_base, out_base, step, width;
};

constexpr int64_t kPoolChannels = 64;  // channels of a unit

template <class Run>
void for_slabs(const Pool& p, const Run& run) {
  const int64_t groups =
      p.channels_last ? (p.channels + kPoolChannels - 1) / kPoolChannels : p.channels;
  parallel_ranges(p.images * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / groups, group = unit % groups;
      if (p.channels_last) {
        const int64_t c = group * kPoolChannels;
        run(Slab{image * p.in_size() * p.channels + c, image * p.out_size() * p.channels + c,
                 p.channels, std::min(kPoolChannels, p.channels - c)});
      } else {
        run(Slab{unit * p.in_size(), unit * p.out_size(), 1, 1});
      }
    }
  });
}

// What an average divides by at one output position; the average of nothing is 0.
int64_t divisor(const Pool& p, int64_t oz, int64_t oy, int64_t ox) {
  if (p.divisor != 0) return p.divisor;
  const Triple o{oz, oy, ox};
  int64_t count = 1;
  for (size_t d = 0; d < 3; ++d) {
    int64_t inside = 0;
    for (int64_t k = 0; k < p.kernel[d]; ++k) {
      const int64_t at = o[d] * p.strides[d] + k * p.dilations[d] - p.begin[d];
      inside +=
          p.include_pad ? at >= -p.begin[d] && at < p.in[d] + p.end[d] : at >= 0 && at < p.in[d];
    }
    count *= inside;
  }
  return std::max<int64_t>(1, count);
}

// One tap over n neighbouring channels. The first maximum stays; a NaN wins over all numbers and
// the first NaN stays.
template <class T>
void max_tap(const T* x, int64_t n, uint8_t tap, T* best, uint8_t* index) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] > best[i] || (is_nan(x[i]) && !is_nan(best[i])))) continue;
    best[i] = x[i];
    index[i] = tap;
  }
}
void max_tap(const float* x, int64_t n, uint8_t tap, float* best, uint8_t* index) {
  if (n == 1) return max_tap<float>(x, n, tap, best, index);
  loops().pool_max_tap(x, n, tap, best, index);
}

template <class T>
void max_pool(const Pool& p, const T* x, T* y, uint8_t* index) {
  constexpr bool kInfinite = std::numeric_limits<T>::has_infinity;
  const T least = static_cast<T>(kInfinite ? -std::numeric_limits<T>::infinity()
                                           : std::numeric_limits<T>::lowest());
  for_slabs(p, [&](const Slab& s) {
    for_outputs(p, [&](int64_t oz, int64_t oy, int64_t ox) {
      const int64_t at = s.out_base + ((oz * p.out[1] + oy) * p.out[2] + ox) * s.step;
      std::fill(y + at, y + at + s.width, least);
      std::memset(index + at, 0, static_cast<size_t>(s.width));
      for_taps(p, oz, oy, ox, [&](int64_t, int64_t tap, int64_t in) {
        max_tap(x + s.in_base + in * s.step, s.width, static_cast<uint8_t>(tap), y + at,
                index + at);
      });
    });
  });
}

template <class T>
void clear(const Pool& p, const Slab& s, T* dx) {
  if (s.step == s.width)
    std::memset(dx + s.in_base, 0, static_cast<size_t>(p.in_size() * s.step) * sizeof(T));
  else
    for (int64_t e = 0; e < p.in_size(); ++e)
      std::memset(dx + s.in_base + e * s.step, 0, static_cast<size_t>(s.width) * sizeof(T));
}

template <class T>
void max_pool_grad(const Pool& p, const T* dy, const uint8_t* index, T* dx) {
  for_slabs(p, [&](const Slab& s) {
    clear(p, s, dx);
    for_outputs(p, [&](int64_t oz, int64_t oy, int64_t ox) {
      for_taps(p, oz, oy, ox, [&](int64_t o, int64_t tap, int64_t in) {
        const int64_t at = s.out_base + o * s.step, to = s.in_base + in * s.step;
        if (s.width == 1)
          dx[to] += index[at] == tap ? dy[at] : T(0);
        else
          loops_of(T()).pool_max_grad_tap(dy + at, index + at, static_cast<uint8_t>(tap), s.width,
                                          dx + to);
      });
    });
  });
}

template <class T>
void avg_pool(const Pool& p, const T* x, T* y) {
  for_slabs(p, [&](const Slab& s) {
    for_outputs(p, [&](int64_t oz, int64_t oy, int64_t ox) {
      const int64_t at = s.out_base + ((oz * p.out[1] + oy) * p.out[2] + ox) * s.step;
      std::fill(y + at, y + at + s.width, T(0));
      for_taps(p, oz, oy, ox, [&](int64_t, int64_t, int64_t in) {
        loops_of(T()).add(x + s.in_base + in * s.step, s.width, y + at);
      });
      const T scale = T(1) / static_cast<T>(divisor(p, oz, oy, ox));
      for (int64_t c = 0; c < s.width; ++c) y[at + c] *= scale;
    });
  });
}

template <class T>
void avg_pool_grad(const Pool& p, const T* dy, T* dx) {
  for_slabs(p, [&](const Slab& s) {
    clear(p, s, dx);
    for_outputs(p, [&](int64_t oz, int64_t oy, int64_t ox) {
      const T scale = T(1) / static_cast<T>(divisor(p, oz, oy, ox));
      for_taps(p, oz, oy, ox, [&](int64_t o, int64_t, int64_t in) {
        loops_of(T()).add_scaled(dy + s.out_base + o * s.step, scale, s.width,
                                 dx + s.in_base + in * s.step);
      });
    });
  });
}

// The tap of a maximum as a position in the whole of x.
void positions(const Pool& p, bool columns_first, const uint8_t* index, int64_t* y) {
  for_slabs(p, [&](const Slab& s) {
    const int64_t plane = p.channels_last ? s.in_base / (p.in_size() * p.channels) * p.channels +
                                                s.in_base % p.channels
                                          : s.in_base / p.in_size();
    for_outputs(p, [&](int64_t oz, int64_t oy, int64_t ox) {
      const int64_t at = s.out_base + ((oz * p.out[1] + oy) * p.out[2] + ox) * s.step;
      for (int64_t c = 0; c < s.width; ++c) {
        const int64_t tap = index[at + c];
        const int64_t z =
            oz * p.strides[0] - p.begin[0] + tap / (p.kernel[1] * p.kernel[2]) * p.dilations[0];
        const int64_t row =
            oy * p.strides[1] - p.begin[1] + tap / p.kernel[2] % p.kernel[1] * p.dilations[1];
        const int64_t column = ox * p.strides[2] - p.begin[2] + tap % p.kernel[2] * p.dilations[2];
        const int64_t place = columns_first ? (column * p.in[1] + row) * p.in[0] + z
                                            : (z * p.in[1] + row) * p.in[2] + column;
        y[at + c] = (plane + c) * p.in_size() + place;
      }
    });
  });
}

// The index, where there is one, lies as its value does.
Status check(const OpDesc& op, const TensorDesc* index, const TensorDesc& like) {
  if (index != nullptr && !same_order(*index, like))
    return unsupported(op, "the index must lie as its value does");
  return {};
}

template <class T>
Result<Built> build_max_pool(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 2));
  LT_RETURN_IF_ERROR(check(op, &op.outputs[1], op.outputs[0]));
  LT_ASSIGN(const Pool made, pool_of(op, *op.inputs[0], op.outputs[0]));
  Built built;
  built.run = [p = std::make_shared<const Pool>(made)](const KernelArgs& args) {
    max_pool(*p, static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.outputs[0]),
             static_cast<uint8_t*>(args.outputs[1]));
  };
  return built;
}

template <class T>
Result<Built> build_max_pool_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_RETURN_IF_ERROR(check(op, &*op.inputs[1], *op.inputs[0]));
  LT_ASSIGN(const Pool made, pool_of(op, op.outputs[0], *op.inputs[0]));
  Built built;
  built.run = [p = std::make_shared<const Pool>(made)](const KernelArgs& args) {
    max_pool_grad(*p, static_cast<const T*>(args.inputs[0]),
                  static_cast<const uint8_t*>(args.inputs[1]), static_cast<T*>(args.outputs[0]));
  };
  return built;
}

Result<Built> build_max_pool_positions(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const TensorDesc& index = *op.inputs[0];
  const Dims spatial = list_attr(op, "input_spatial", {});
  TensorDesc whole = index;
  if (spatial.size() + 2 != index.dims.size())
    return unsupported(op, "input_spatial does not match the rank");
  std::copy(spatial.begin(), spatial.end(), whole.dims.begin() + 2);
  LT_ASSIGN(const Pool made, pool_of(op, index, op.outputs[0]));
  LT_ASSIGN(Pool pool, pool_of(op, whole, op.outputs[0]));
  pool.channels_last = made.channels_last;  // as the operands lie; x is not here
  const bool columns_first = int_attr(op, "columns_first", 0) != 0;
  Built built;
  built.run = [=](const KernelArgs& args) {
    positions(pool, columns_first, static_cast<const uint8_t*>(args.inputs[0]),
              static_cast<int64_t*>(args.outputs[0]));
  };
  return built;
}

template <class T>
Result<Built> build_avg_pool(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_RETURN_IF_ERROR(check(op, nullptr, op.outputs[0]));
  const bool grad = op.kind == "AvgPoolGrad";
  LT_ASSIGN(const Pool made, grad ? pool_of(op, op.outputs[0], *op.inputs[0])
                                  : pool_of(op, *op.inputs[0], op.outputs[0]));
  Built built;
  built.run = [p = std::make_shared<const Pool>(made), grad](const KernelArgs& args) {
    (grad ? avg_pool_grad<T> : avg_pool<T>)(*p, static_cast<const T*>(args.inputs[0]),
                                            static_cast<T*>(args.outputs[0]));
  };
  return built;
}

Result<Built> build_any_max_pool(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 2));
  switch (op.outputs[0].dtype) {
    case DType::kF32:
      return build_max_pool<float>(op);
    case DType::kF64:
      return build_max_pool<double>(op);
    case DType::kI8:
      return build_max_pool<int8_t>(op);
    case DType::kU8:
      return build_max_pool<uint8_t>(op);
    default:
      return unsupported(op, "this element type");
  }
}

constexpr Entry kPoolEntries[] = {
    {"MaxPool", "T -> T u8", "f32 f64 i8 u8", build_any_max_pool},
    {"MaxPoolGrad", "T u8 -> T", "f32 f64",
     by_width<build_max_pool_grad<float>, build_max_pool_grad<double>>, nullptr, false, "0"},
    {"MaxPoolPositions", "u8 -> i64", "", build_max_pool_positions},
    {"AvgPool", "T -> T", "f32 f64", by_width<build_avg_pool<float>, build_avg_pool<double>>},
    {"AvgPoolGrad", "T -> T", "f32 f64", by_width<build_avg_pool<float>, build_avg_pool<double>>,
     nullptr, false, "0"},
};

}  // namespace

std::span<const Entry> pool_kernels() {
  return kPoolEntries;
}

}  // namespace lowtide::exec_cpu
