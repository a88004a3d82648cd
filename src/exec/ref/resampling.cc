// Resize, padding with repeated elements, and their gradients by definition: every element of the
// finer or coarser grid is the sum of its taps, one choice along each dimension; the gradient sends
// each element of dy back along the same taps.
#include "base/axis_taps.h"
#include "base/element.h"
#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

AxisTaps unchanged(int64_t extent) {
  AxisTaps taps;
  for (int64_t p = 0; p < extent; ++p) {
    taps.add(p, 1);
    taps.close();
  }
  return taps;
}

// One matrix for each dimension, from the dims that are read by Resize to those that it makes.
std::vector<AxisTaps> resize_taps(const Attributes& attrs, const Sizes& from, const Sizes& to) {
  const std::string mode = attrs.word("mode"), coordinates = attrs.word("coordinates"),
                    nearest = attrs.has("nearest") ? attrs.word("nearest") : "floor";
  const Resample how{.mode = mode,
                     .coordinates = coordinates,
                     .nearest = nearest,
                     .cubic_a = attrs.real("cubic_a", -0.75),
                     .exclude_outside = attrs.integer("exclude_outside") != 0,
                     .antialias = attrs.integer("antialias") != 0};
  const std::vector<double> scales = parse_reals(attrs.word("scales")).value();
  const std::vector<double> roi = parse_reals(attrs.word("roi")).value();
  std::vector<AxisTaps> maps;
  for (int64_t extent : to) maps.push_back(unchanged(extent));
  const Sizes axes = attrs.list("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(axes[i]);
    ResampledLine line{.from = from[d], .to = to[d]};
    if (!scales.empty()) line.scale = scales[i];
    if (!roi.empty()) {
      line.roi_begin = roi[i];
      line.roi_end = roi[i + axes.size()];
    }
    maps[d] = resample_taps(how, line);
  }
  return maps;
}

std::vector<AxisTaps> pad_maps(const Attributes& attrs, const Sizes& from) {
  const Sizes begins = attrs.list("begins"), ends = attrs.list("ends");
  std::vector<AxisTaps> maps;
  for (size_t d = 0; d < from.size(); ++d)
    maps.push_back(pad_taps(attrs.word("mode"), from[d], begins[d], ends[d]));
  return maps;
}

// Calls use(element of the result, element that it reads, weight) for all taps of all elements;
// none for an element that lies outside along some dimension.
template <class Use>
void for_each_tap(const std::vector<AxisTaps>& maps, const Sizes& read, const Sizes& made,
                  const Use& use) {
  const Sizes steps = row_major_strides(read);
  for (Odometer at(made); at.live(); at.next()) {
    Sizes counts;
    for (size_t d = 0; d < maps.size(); ++d) {
      const auto p = static_cast<size_t>(at[d]);
      counts.push_back(maps[d].begin[p + 1] - maps[d].begin[p]);
    }
    for (Odometer tap(counts); tap.live(); tap.next()) {
      int64_t from = 0;
      double weight = 1;
      for (size_t d = 0; d < maps.size(); ++d) {
        const auto t = static_cast<size_t>(maps[d].begin[static_cast<size_t>(at[d])] + tap[d]);
        from += maps[d].index[t] * steps[d];
        weight *= maps[d].weight[t];
      }
      use(at.flat(), from, weight);
    }
  }
}

void apply(const std::vector<AxisTaps>& maps, const Tensor& x, Tensor& y, double outside) {
  for (double& value : y.f) value = outside;
  uint64_t element = 0;
  write_real(y.dtype, outside, &element);
  for (int64_t& value : y.i) value = read_integer(y.dtype, &element);
  int64_t last = -1;
  for_each_tap(maps, x.dims, y.dims, [&](int64_t to, int64_t from, double weight) {
    if (!y.real()) return copy_element(y, to, x, from);
    const auto e = static_cast<size_t>(to);
    if (to != last) y.f[e] = 0;
    last = to;
    // A tap of weight 1 alone copies, whatever it finds.
    y.f[e] +=
        weight == 1 ? x.f[static_cast<size_t>(from)] : weight * x.f[static_cast<size_t>(from)];
  });
}

template <class T>
void round_to(Tensor& y) {
  for (double& value : y.f) value = static_cast<double>(static_cast<T>(value));
}

struct ResizeKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    apply(resize_taps(call.attrs, x.dims, y.dims), x, y, call.attrs.real("extrapolation"));
    round_to<T>(y);
  }
};

// dx: every element of dy goes back along its taps.
template <class T>
void apply_back(const std::vector<AxisTaps>& maps, const Tensor& dy, Tensor& dx) {
  for_each_tap(maps, dx.dims, dy.dims, [&](int64_t to, int64_t from, double weight) {
    dx.f[static_cast<size_t>(from)] += weight * dy.f[static_cast<size_t>(to)];
  });
  round_to<T>(dx);
}

struct ResizeGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& dy = *call.in[0];
    Tensor& dx = call.out[0];
    apply_back<T>(resize_taps(call.attrs, dx.dims, dy.dims), dy, dx);
  }
};

struct PadRepeatKernel {
  template <class T>
  static void run(Call& call) {
    apply(pad_maps(call.attrs, call.in[0]->dims), *call.in[0], call.out[0], 0);
  }
};

struct PadRepeatGradKernel {
  template <class T>
  static void run(Call& call) {
    apply_back<T>(pad_maps(call.attrs, call.out[0].dims), *call.in[0], call.out[0]);
  }
};

}  // namespace

void add_resampling(KernelTable& table) {
  table["Resize"] = kernel<ResizeKernel>();
  table["ResizeGrad"] = kernel<ResizeGradKernel>();
  table["PadRepeat"] = kernel<PadRepeatKernel>();
  table["PadRepeatGrad"] = kernel<PadRepeatGradKernel>();
}

}  // namespace lowtide::ref
