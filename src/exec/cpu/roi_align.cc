// RoiAlign in f32 and f64, row-major: boxes of an image pooled to one size. A sample lies between
// four pixels, the same ones for all channels, so its pixels and weights are found once and the
// channels of a group are walked inside. A unit of work is one box and one group of channels.
#include <algorithm>
#include <cmath>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kRoiChannels = 32;  // channels of a unit

struct RoiAlign {
  int64_t images, channels, height, width;  // of x
  int64_t boxes, rows, columns;             // of y
  int64_t sampling_ratio;
  double scale;
  bool half_pixel, averages, wide;  // wide: i64 image numbers
};

// One direction of a box: where its bins begin, how long they are, how many samples each has.
template <class T>
struct Side {
  T begin = 0, bin = 0;
  int64_t samples = 0;

  T place(int64_t b, int64_t s) const {
    return begin + static_cast<T>(b) * bin +
           (static_cast<T>(s) + static_cast<T>(0.5)) * bin / static_cast<T>(samples);
  }
};

template <class T>
Side<T> side_of(const RoiAlign& roi, T low, T high, int64_t bins) {
  const T scale = static_cast<T>(roi.scale), shift = static_cast<T>(roi.half_pixel ? 0.5 : 0);
  Side<T> side{.begin = low * scale - shift};
  T length = high * scale - shift - side.begin;
  if (!roi.half_pixel) length = std::max(length, T{1});
  side.bin = length / static_cast<T>(bins);
  // A box that is no number has no samples; one beyond all images not more than its pixels.
  const T limit = static_cast<T>(2 * (roi.height + roi.width) + 2);
  side.samples = roi.sampling_ratio;
  if (side.samples <= 0)
    side.samples = side.bin > 0 ? static_cast<int64_t>(std::ceil(std::min(side.bin, limit))) : 0;
  return side;
}

template <class T>
struct Between {
  int64_t pixel[2] = {0, 0};
  T weight[2] = {0, 0};
};

template <class T>
Between<T> between(T place, int64_t extent) {
  Between<T> result;
  if (!(place >= -1 && place <= static_cast<T>(extent))) return result;
  place = std::clamp(place, T{0}, static_cast<T>(extent - 1));
  result.pixel[0] = static_cast<int64_t>(place);
  result.pixel[1] = std::min(result.pixel[0] + 1, extent - 1);
  result.weight[1] = place - static_cast<T>(result.pixel[0]);
  result.weight[0] = 1 - result.weight[1];
  return result;
}

// One bin of `count` channels: x and y are at the first of them.
template <class T>
void pool_bin(const RoiAlign& roi, const Side<T>& rows, const Side<T>& columns, int64_t row,
              int64_t column, const T* x, int64_t count, T* y) {
  T sums[kRoiChannels] = {};
  bool first = true;
  for (int64_t r = 0; r < rows.samples; ++r)
    for (int64_t s = 0; s < columns.samples; ++s) {
      const Between<T> v = between(rows.place(row, r), roi.height);
      const Between<T> h = between(columns.place(column, s), roi.width);
      for (int corner = 0; corner < 4; ++corner) {
        const int i = corner / 2, j = corner % 2;
        const T weight = v.weight[i] * h.weight[j];
        const T* pixel = x + v.pixel[i] * roi.width + h.pixel[j];
        for (int64_t c = 0; c < count; ++c) {
          const T part = weight * pixel[c * roi.height * roi.width];
          sums[c] = roi.averages ? sums[c] + part : (first ? part : std::max(sums[c], part));
        }
        first = false;
      }
    }
  const T divisor =
      static_cast<T>(roi.averages ? std::max<int64_t>(1, rows.samples * columns.samples) : 1);
  for (int64_t c = 0; c < count; ++c) y[c * roi.rows * roi.columns] = sums[c] / divisor;
}

template <class T>
void roi_align(const RoiAlign& roi, const KernelArgs& args) {
  const T *x = static_cast<const T*>(args.inputs[0]),
          *boxes = static_cast<const T*>(args.inputs[2]);
  const int64_t groups = (roi.channels + kRoiChannels - 1) / kRoiChannels,
                bins = roi.rows * roi.columns;
  parallel_ranges(roi.boxes * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t box = unit / groups, first = unit % groups * kRoiChannels;
      const int64_t count = std::min(kRoiChannels, roi.channels - first);
      const int64_t image = roi.wide ? static_cast<const int64_t*>(args.inputs[1])[box]
                                     : static_cast<const int32_t*>(args.inputs[1])[box];
      T* y = static_cast<T*>(args.outputs[0]) + (box * roi.channels + first) * bins;
      if (image < 0 || image >= roi.images) {
        std::fill(y, y + count * bins, T{0});
        continue;
      }
      const T* corner = boxes + 4 * box;
      const Side<T> rows = side_of(roi, corner[1], corner[3], roi.rows);
      const Side<T> columns = side_of(roi, corner[0], corner[2], roi.columns);
      const T* plane = x + (image * roi.channels + first) * roi.height * roi.width;
      for (int64_t bin = 0; bin < bins; ++bin)
        pool_bin(roi, rows, columns, bin / roi.columns, bin % roi.columns, plane, count, y + bin);
    }
  });
}

Result<Built> build_roi_align(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 1));
  const TensorDesc &x = *op.inputs[0], &images = *op.inputs[1], &y = op.outputs[0];
  for (const TensorDesc* operand : {&x, &y})
    if (!same_order(*operand, {.dtype = operand->dtype, .dims = operand->dims, .layout = {}}))
      return unsupported(op, "operands must be row-major");
  if (x.dims.size() != 4 || y.dims.size() != 4 || x.dims[2] * x.dims[3] == 0)
    return unsupported(op, "images of two dims");
  const RoiAlign roi{.images = x.dims[0],
                     .channels = x.dims[1],
                     .height = x.dims[2],
                     .width = x.dims[3],
                     .boxes = y.dims[0],
                     .rows = y.dims[2],
                     .columns = y.dims[3],
                     .sampling_ratio = int_attr(op, "sampling_ratio", 0),
                     .scale = real_attr(op, "scale", 1),
                     .half_pixel = int_attr(op, "half_pixel", 0) != 0,
                     .averages = word_attr(op, "mode", "avg") == "avg",
                     .wide = images.dtype == DType::kI64};
  const bool is_double = y.dtype == DType::kF64;
  Built built;
  built.run = [=](const KernelArgs& args) {
    is_double ? roi_align<double>(roi, args) : roi_align<float>(roi, args);
  };
  return built;
}

constexpr Entry kRoiAlignEntries[] = {
    {"RoiAlign", "T i T -> T", "f32 f64", build_roi_align, wish_row_major},
};

}  // namespace

std::span<const Entry> roi_align_kernels() {
  return kRoiAlignEntries;
}

}  // namespace lowtide::exec_cpu
