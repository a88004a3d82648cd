// RoiAlign by definition: every box is cut into bins, every bin is sampled at a grid of places
// between pixels, and the samples are averaged, or their largest weighted pixel is taken.
#include <algorithm>
#include <array>
#include <cmath>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// One direction of a box: where bins begin, how long they are, how many samples each has.
template <class T>
struct Side {
  T begin, bin;
  int64_t samples;

  Side(const Attributes& attrs, T low, T high, int64_t bins, int64_t most) {
    const bool half_pixel = attrs.integer("half_pixel") != 0;
    const T scale = static_cast<T>(attrs.real("scale", 1)), shift = half_pixel ? T{0.5} : T{0};
    begin = low * scale - shift;
    T length = high * scale - shift - begin;
    if (!half_pixel) length = std::max(length, T{1});
    bin = length / static_cast<T>(bins);
    samples = attrs.integer("sampling_ratio");
    // A box that is no number has no samples, one beyond all images not more than its pixels.
    const T limit = static_cast<T>(most);
    if (samples <= 0) samples = bin > 0 ? static_cast<int64_t>(std::ceil(std::min(bin, limit))) : 0;
  }
  T place(int64_t b, int64_t s) const {
    return begin + static_cast<T>(b) * bin +
           (static_cast<T>(s) + T{0.5}) * bin / static_cast<T>(samples);
  }
};

// The two pixels of a line around a place, and their weights; none where it lies outside.
template <class T>
struct Between {
  std::array<int64_t, 2> pixel{};
  std::array<T, 2> weight{};

  Between(T place, int64_t extent) {
    if (!(place >= -1 && place <= static_cast<T>(extent))) return;
    place = std::clamp(place, T{0}, static_cast<T>(extent - 1));
    pixel = {static_cast<int64_t>(place), std::min(static_cast<int64_t>(place) + 1, extent - 1)};
    const T above = place - static_cast<T>(pixel[0]);
    weight = {1 - above, above};
  }
};

struct RoiAlignKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &images = *call.in[1], &boxes = *call.in[2];
    Tensor& y = call.out[0];
    const bool averages = call.attrs.word("mode") == "avg";
    const int64_t height = x.dims[2], width = x.dims[3], most = 2 * (height + width) + 2;
    for (Odometer at(y.dims); at.live(); at.next()) {
      const int64_t box = 4 * at[0], image = int_at(images, at[0]);
      if (image < 0 || image >= x.dims[0]) continue;  // zeros
      const Side<T> rows(call.attrs, get<T>(boxes, box + 1), get<T>(boxes, box + 3), y.dims[2],
                         most);
      const Side<T> columns(call.attrs, get<T>(boxes, box), get<T>(boxes, box + 2), y.dims[3],
                            most);
      const int64_t plane = (image * x.dims[1] + at[1]) * height * width;
      T sum = 0, largest = 0;
      int64_t count = 0;
      for (int64_t r = 0; r < rows.samples; ++r)
        for (int64_t c = 0; c < columns.samples; ++c, ++count) {
          const Between<T> v(rows.place(at[2], r), height), h(columns.place(at[3], c), width);
          for (size_t i = 0; i < 2; ++i)
            for (size_t j = 0; j < 2; ++j) {
              const T part =
                  v.weight[i] * h.weight[j] * get<T>(x, plane + v.pixel[i] * width + h.pixel[j]);
              sum += part;
              largest = count == 0 && i == 0 && j == 0 ? part : std::max(largest, part);
            }
        }
      set<T>(y, at.flat(), averages ? sum / static_cast<T>(std::max<int64_t>(count, 1)) : largest);
    }
  }
};

}  // namespace

void add_roi_align(KernelTable& table) {
  table["RoiAlign"] = kernel<RoiAlignKernel>();
}

}  // namespace lowtide::ref
