// GridSample and its gradients for two or three spatial dims, in f32 and f64, row-major or channels
// last. The pixels that an output point reads are the same for all channels, so they are found once
// for a block of points and then walked channel by channel (row-major: the image of a channel stays
// in the cache) or point by point (channels last: channels are contiguous).
//
// The gradient of the image scatters: a unit of its work is a group of channels of one image, which
// one thread owns, so no two threads meet in an element. The gradient of the grid sums over
// channels: its units are blocks of points.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kPoints = 32;   // points of a block
constexpr int64_t kChannels = 8;  // channels of a unit of the image's gradient
constexpr int64_t kMostReads = 16;

enum class Padding : uint8_t { kZeros, kBorder, kReflection };

struct Sampler {
  int64_t dims = 2, images = 1, channels = 1, plane_in = 1, plane_out = 1;
  std::array<int64_t, 3> extent{1, 1, 1}, step{1, 1, 1};  // of the image, in elements of a plane
  int64_t taps = 1;                                       // along one dimension: 1, 2 or 4
  Padding padding = Padding::kZeros;
  bool aligned = false, channels_last = false;
  bool pixels = false;  // coordinates are in pixels, in the order of the dims

  int64_t reads() const {
    int64_t count = 1;
    for (int64_t d = 0; d < dims; ++d) count *= taps;
    return count;
  }
  // Where channel c of image n begins, and the distance of neighbouring elements of its plane.
  int64_t plane(int64_t n, int64_t c, int64_t size) const {
    return channels_last ? n * size * channels + c : (n * channels + c) * size;
  }
  int64_t coordinate(int64_t d) const { return pixels ? d : dims - 1 - d; }
  int64_t stride() const { return channels_last ? channels : 1; }
};

// What one output point reads: elements of a plane, their weights, and the slope of each weight
// along each coordinate of the grid. Zeros outside of the image are not read.
template <class T>
struct Reads {
  int64_t count;
  int64_t element[kMostReads];
  T weight[kMostReads];
  T slope[3][kMostReads];
};

template <class T>
struct Pixel {
  int64_t index = -1;  // -1: a zero
  T weight = 0, slope = 0;
};

int64_t padded(const Sampler& s, int64_t p, int64_t n) {
  if (p >= 0 && p < n) return p;
  if (s.padding == Padding::kZeros) return -1;
  if (s.padding == Padding::kBorder) return p < 0 ? 0 : n - 1;
  const int64_t period = s.aligned ? std::max<int64_t>(1, 2 * (n - 1)) : 2 * n;
  const int64_t place = (p % period + period) % period;
  return place < n ? place : (s.aligned ? period : period - 1) - place;
}

// Keys' cubic convolution kernel with a = -0.75 at four pixels around place t in [0, 1), and
// slopes.
template <class T>
void cubic(T t, T* weight, T* slope) {
  const T a = static_cast<T>(-0.75);
  for (int k = 0; k < 4; ++k) {
    const T signed_away = t - static_cast<T>(k - 1), x = std::abs(signed_away);
    const bool near = k == 1 || k == 2;
    weight[k] =
        near ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    const T along = near ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
    slope[k] = signed_away < 0 ? -along : along;
  }
}

template <class T>
void pixels_at(const Sampler& s, T normalized, int64_t n, Pixel<T>* pixels) {
  const T extent = static_cast<T>(n), half = static_cast<T>(0.5);
  const T step = s.pixels ? T(1) : (s.aligned ? extent - 1 : extent) * half;
  T place = s.pixels    ? normalized
            : s.aligned ? (normalized + 1) * half * (extent - 1)
                        : ((normalized + 1) * extent - 1) * half;
  // Beyond this all is padding, and whole numbers still have neighbours; NaN reads the first pixel.
  const T far = static_cast<T>(1 << 22);
  place = place > -far ? std::min(place, far) : -far;
  T weight[4] = {1, 0, 0, 0}, slope[4] = {0, 0, 0, 0};
  const T below = std::floor(place), t = place - below;
  int64_t first = static_cast<int64_t>(below);
  if (s.taps == 1) {
    first = static_cast<int64_t>(std::nearbyint(place));
  } else if (s.taps == 2) {
    weight[0] = 1 - t;
    weight[1] = t;
    slope[0] = -1;
    slope[1] = 1;
  } else {
    first -= 1;
    cubic(t, weight, slope);
  }
  for (int64_t k = 0; k < s.taps; ++k) {
    pixels[k] = {padded(s, first + k, n), weight[k], slope[k] * step};
  }
}

// The grid's last coordinate belongs to the first dimension, except of pixels. Slopes are by
// coordinate.
template <class T>
void reads_of(const Sampler& s, const T* point, Reads<T>& reads) {
  Pixel<T> along[3][4];
  for (int64_t d = 0; d < s.dims; ++d)
    pixels_at(s, point[s.coordinate(d)], s.extent[static_cast<size_t>(d)], along[d]);
  reads.count = 0;
  for (int64_t choice = 0; choice < s.reads(); ++choice) {
    T weight = 1, slope[3] = {1, 1, 1};
    int64_t element = 0, rest = choice;
    bool inside = true;
    for (int64_t d = s.dims; d-- > 0;) {
      const Pixel<T>& pixel = along[d][rest % s.taps];
      rest /= s.taps;
      inside = inside && pixel.index >= 0;
      element += pixel.index * s.step[static_cast<size_t>(d)];
      weight *= pixel.weight;
      for (int64_t other = 0; other < s.dims; ++other)
        slope[s.coordinate(other)] *= other == d ? pixel.slope : pixel.weight;
    }
    if (!inside) continue;
    const int64_t r = reads.count++;
    reads.element[r] = element;
    reads.weight[r] = weight;
    for (int k = 0; k < 3; ++k) reads.slope[k][r] = slope[k];
  }
}

// Calls use(n, first point, points, what they read) for blocks of the points of all images.
template <class T, class Use>
void for_blocks(const Sampler& s, const T* grid, const Use& use) {
  const int64_t blocks = (s.plane_out + kPoints - 1) / kPoints;
  const int64_t grain = 1 + 4096 / (kPoints * s.channels * s.reads());
  parallel_ranges(s.images * blocks, grain, [&](int64_t begin, int64_t end) {
    Reads<T> reads[kPoints];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / blocks, first = unit % blocks * kPoints;
      const int64_t points = std::min(kPoints, s.plane_out - first);
      for (int64_t p = 0; p < points; ++p)
        reads_of(s, grid + (n * s.plane_out + first + p) * s.dims, reads[p]);
      use(n, first, points, reads);
    }
  });
}

template <class T>
void sample(const Sampler& s, const T* x, const T* grid, T* y) {
  const int64_t stride = s.stride();
  for_blocks(s, grid, [&](int64_t n, int64_t first, int64_t points, const Reads<T>* reads) {
    const auto at = [&](int64_t p, int64_t c) {
      const T* plane = x + s.plane(n, c, s.plane_in);
      T sum = 0;
      for (int64_t r = 0; r < reads[p].count; ++r)
        sum += reads[p].weight[r] * plane[reads[p].element[r] * stride];
      y[s.plane(n, c, s.plane_out) + (first + p) * stride] = sum;
    };
    if (s.channels_last) {
      for (int64_t p = 0; p < points; ++p)
        for (int64_t c = 0; c < s.channels; ++c) at(p, c);
    } else {
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t p = 0; p < points; ++p) at(p, c);
    }
  });
}

template <class T>
void image_gradient(const Sampler& s, const T* dy, const T* grid, T* dx) {
  const int64_t stride = s.stride();
  const int64_t groups = (s.channels + kChannels - 1) / kChannels;
  parallel_ranges(s.images * groups, 1, [&](int64_t begin, int64_t end) {
    Reads<T> reads;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / groups, first = unit % groups * kChannels;
      const int64_t last = std::min(s.channels, first + kChannels);
      for (int64_t c = first; c < last; ++c)
        for (int64_t e = 0; e < s.plane_in; ++e) dx[s.plane(n, c, s.plane_in) + e * stride] = 0;
      for (int64_t p = 0; p < s.plane_out; ++p) {
        reads_of(s, grid + (n * s.plane_out + p) * s.dims, reads);
        for (int64_t c = first; c < last; ++c) {
          const T slid = dy[s.plane(n, c, s.plane_out) + p * stride];
          T* plane = dx + s.plane(n, c, s.plane_in);
          for (int64_t r = 0; r < reads.count; ++r)
            plane[reads.element[r] * stride] += reads.weight[r] * slid;
        }
      }
    }
  });
}

template <class T>
void grid_gradient(const Sampler& s, const T* dy, const T* x, const T* grid, T* dgrid) {
  const int64_t stride = s.stride();
  for_blocks(s, grid, [&](int64_t n, int64_t first, int64_t points, const Reads<T>* reads) {
    T sums[kPoints][3] = {};
    for (int64_t c = 0; c < s.channels; ++c) {
      const T* plane = x + s.plane(n, c, s.plane_in);
      const T* slid = dy + s.plane(n, c, s.plane_out) + first * stride;
      for (int64_t p = 0; p < points; ++p)
        for (int64_t r = 0; r < reads[p].count; ++r) {
          const T part = slid[p * stride] * plane[reads[p].element[r] * stride];
          for (int64_t k = 0; k < s.dims; ++k) sums[p][k] += part * reads[p].slope[k][r];
        }
    }
    for (int64_t p = 0; p < points; ++p)
      std::memcpy(dgrid + (n * s.plane_out + first + p) * s.dims, sums[p],
                  static_cast<size_t>(s.dims) * sizeof(T));
  });
}

// ---- building ----

// x and y: image and result, in one layout; grid row-major.
Result<Sampler> sampler_of(const OpDesc& op, const TensorDesc& x, const TensorDesc& y,
                           const TensorDesc& grid) {
  const size_t rank = x.dims.size();
  if ((rank != 4 && rank != 5) || y.dims.size() != rank || grid.dims.size() != rank)
    return unsupported(op, "two or three spatial dims");
  const auto lies = [](const TensorDesc& t, const Layout& layout) {
    return same_order(t, {.dtype = t.dtype, .dims = t.dims, .layout = layout});
  };
  Sampler s{.dims = static_cast<int64_t>(rank) - 2, .images = x.dims[0], .channels = x.dims[1]};
  s.channels_last = !(lies(x, {}) && lies(y, {}));
  const Layout last = Layout::channels_last(rank);
  if ((s.channels_last && !(lies(x, last) && lies(y, last))) || !lies(grid, {}))
    return unsupported(op, "images must be row-major or channels last, the grid row-major");
  for (size_t d = rank - 2; d-- > 0;) {
    s.extent[d] = x.dims[d + 2];
    s.step[d] = s.plane_in;
    s.plane_in *= x.dims[d + 2];
    s.plane_out *= y.dims[d + 2];
  }
  if (s.plane_in == 0) return unsupported(op, "an empty image");
  const std::string mode = word_attr(op, "mode", ""), padding = word_attr(op, "padding", "");
  s.taps = mode == "nearest" ? 1 : mode == "linear" ? 2 : 4;
  if (s.reads() > kMostReads) return unsupported(op, "cubic in three dims");
  s.padding = padding == "zeros"    ? Padding::kZeros
              : padding == "border" ? Padding::kBorder
                                    : Padding::kReflection;
  s.aligned = int_attr(op, "align_corners", 0) != 0;
  s.pixels = int_attr(op, "pixels", 0) != 0;
  return s;
}

template <class T>
Built sampling(const Sampler& s) {
  Built built;
  built.run = [=](const KernelArgs& args) {
    sample(s, static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
           static_cast<T*>(args.outputs[0]));
  };
  return built;
}

template <class T>
Built sampling_gradient(const Sampler& s) {
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T *dy = static_cast<const T*>(args.inputs[0]), *x = static_cast<const T*>(args.inputs[1]),
            *grid = static_cast<const T*>(args.inputs[2]);
    image_gradient(s, dy, grid, static_cast<T*>(args.outputs[0]));
    grid_gradient(s, dy, x, grid, static_cast<T*>(args.outputs[1]));
  };
  return built;
}

Result<Built> build_grid_sample(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const Sampler s, sampler_of(op, *op.inputs[0], op.outputs[0], *op.inputs[1]));
  return op.outputs[0].dtype == DType::kF64 ? sampling<double>(s) : sampling<float>(s);
}

Result<Built> build_grid_sample_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 2));
  LT_ASSIGN(const Sampler s, sampler_of(op, *op.inputs[1], *op.inputs[0], *op.inputs[2]));
  if (!same_order(op.outputs[0], *op.inputs[1]) || !same_order(op.outputs[1], *op.inputs[2]))
    return unsupported(op, "gradients must lie as what they belong to");
  return op.outputs[0].dtype == DType::kF64 ? sampling_gradient<double>(s)
                                            : sampling_gradient<float>(s);
}

constexpr Entry kGridSampleEntries[] = {
    {"GridSample", "T T -> T", "f32 f64", build_grid_sample},
    {"GridSampleGrad", "T T T -> T T", "f32 f64", build_grid_sample_grad, nullptr, false, "0 1"},
};

}  // namespace

std::span<const Entry> grid_sample_kernels() {
  return kGridSampleEntries;
}

}  // namespace lowtide::exec_cpu
