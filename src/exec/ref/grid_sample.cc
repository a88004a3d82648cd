// GridSample and its gradients by definition: the element at a place that the grid names, between
// the pixels around it. A place is unrolled along each dimension into the pixels that it reads,
// with a weight and the weight's slope; pixels outside of the image are zero, or those that the
// padding puts there.
#include <cmath>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

struct Pixel {
  int64_t index = -1;  // -1: a zero
  double weight = 0, slope = 0;
};

// The pixel that stands at place p of a line of n pixels continued on both sides.
int64_t padded(std::string_view padding, bool aligned, int64_t p, int64_t n) {
  if (p >= 0 && p < n) return p;
  if (padding == "zeros") return -1;
  if (padding == "border") return p < 0 ? 0 : n - 1;
  const int64_t period = aligned ? std::max<int64_t>(1, 2 * (n - 1)) : 2 * n;
  const int64_t place = (p % period + period) % period;
  return place < n ? place : (aligned ? period : period - 1) - place;
}

// Keys' kernel with a = -0.75, and its slope.
double cubic(double x) {
  const double a = -0.75;
  x = std::abs(x);
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
double cubic_slope(double x) {
  const double a = -0.75, sign = x < 0 ? -1 : 1;
  x = std::abs(x);
  return sign * (x < 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a);
}

// The pixels along one dimension of n for the normalized place; slopes by the normalized place.
std::vector<Pixel> pixels_at(const Attributes& attrs, double normalized, int64_t n) {
  const std::string mode = attrs.word("mode"), padding = attrs.word("padding");
  const bool aligned = attrs.integer("align_corners") != 0;
  const double extent = static_cast<double>(n);
  double step = (aligned ? extent - 1 : extent) / 2;
  double place = aligned ? (normalized + 1) * step : ((normalized + 1) * extent - 1) / 2;
  if (attrs.integer("pixels") != 0) place = normalized, step = 1;
  // Far beyond the image all places are alike, and one that is no number lies there.
  constexpr double kFar = 1 << 22;
  place = place > -kFar ? std::min(place, kFar) : -kFar;
  const auto pixel = [&](int64_t p, double weight, double slope) {
    return Pixel{padded(padding, aligned, p, n), weight, slope * step};
  };
  if (mode == "nearest") return {pixel(static_cast<int64_t>(std::nearbyint(place)), 1, 0)};
  const auto first = static_cast<int64_t>(std::floor(place));
  const double t = place - std::floor(place);
  if (mode == "linear") return {pixel(first, 1 - t, -1), pixel(first + 1, t, 1)};
  std::vector<Pixel> pixels;
  for (int64_t k = -1; k <= 2; ++k) {
    const double away = t - static_cast<double>(k);
    pixels.push_back(pixel(first + k, cubic(away), cubic_slope(away)));
  }
  return pixels;
}

// Calls use(output point, element of the image plane, weight, slope along each coordinate of the
// grid) for everything that the points of image n read. The grid's last coordinate is that of the
// first dimension, except of pixels.
template <class Use>
void for_reads(const Attributes& attrs, const Tensor& grid, const Sizes& image, int64_t n,
               const Use& use) {
  const size_t dims = image.size();
  const bool pixels = attrs.integer("pixels") != 0;
  const auto coordinate_of = [&](size_t d) { return pixels ? d : dims - 1 - d; };
  const int64_t points = grid.count() / grid.dims[0] / static_cast<int64_t>(dims);
  const Sizes steps = row_major_strides(image);
  for (int64_t p = 0; p < points; ++p) {
    std::vector<std::vector<Pixel>> along;
    Sizes counts;
    for (size_t d = 0; d < dims; ++d) {
      const auto coordinate = static_cast<int64_t>(coordinate_of(d));
      const int64_t at = (n * points + p) * static_cast<int64_t>(dims) + coordinate;
      along.push_back(pixels_at(attrs, grid.f[static_cast<size_t>(at)], image[d]));
      counts.push_back(static_cast<int64_t>(along.back().size()));
    }
    for (Odometer tap(counts); tap.live(); tap.next()) {
      int64_t element = 0;
      double weight = 1;
      std::vector<double> slopes(dims, 1);
      bool inside = true;
      for (size_t d = 0; d < dims; ++d) {
        const Pixel& pixel = along[d][static_cast<size_t>(tap[d])];
        inside = inside && pixel.index >= 0;
        element += pixel.index * steps[d];
        weight *= pixel.weight;
        for (size_t other = 0; other < dims; ++other)
          slopes[coordinate_of(other)] *= other == d ? pixel.slope : pixel.weight;
      }
      if (inside) use(p, element, weight, slopes);
    }
  }
}

Sizes plane_of(const Tensor& x) {
  return Sizes(x.dims.begin() + 2, x.dims.end());
}

struct GridSampleKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &grid = *call.in[1];
    Tensor& y = call.out[0];
    const Sizes image = plane_of(x);
    const int64_t from = product(image), to = product(plane_of(y)), channels = x.dims[1];
    for (int64_t n = 0; n < x.dims[0]; ++n)
      for_reads(call.attrs, grid, image, n,
                [&](int64_t p, int64_t e, double weight, const std::vector<double>&) {
                  for (int64_t c = 0; c < channels; ++c) {
                    const int64_t plane = n * channels + c;
                    add<T>(y, plane * to + p, static_cast<T>(weight) * get<T>(x, plane * from + e));
                  }
                });
  }
};

struct GridSampleGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1], &grid = *call.in[2];
    Tensor &dx = call.out[0], &dgrid = call.out[1];
    const Sizes image = plane_of(x);
    const int64_t from = product(image), to = product(plane_of(dy)), channels = x.dims[1];
    const auto dims = static_cast<int64_t>(image.size());
    for (int64_t n = 0; n < x.dims[0]; ++n)
      for_reads(call.attrs, grid, image, n,
                [&](int64_t p, int64_t e, double weight, const std::vector<double>& slopes) {
                  for (int64_t c = 0; c < channels; ++c) {
                    const int64_t plane = n * channels + c;
                    const T slid = get<T>(dy, plane * to + p);
                    add<T>(dx, plane * from + e, static_cast<T>(weight) * slid);
                    for (int64_t k = 0; k < dims; ++k)
                      add<T>(dgrid, (n * to + p) * dims + k,
                             static_cast<T>(slopes[static_cast<size_t>(k)]) * slid *
                                 get<T>(x, plane * from + e));
                  }
                });
  }
};

}  // namespace

void add_grid_sample(KernelTable& table) {
  table["GridSample"] = kernel<GridSampleKernel>();
  table["GridSampleGrad"] = kernel<GridSampleGradKernel>();
}

}  // namespace lowtide::ref
