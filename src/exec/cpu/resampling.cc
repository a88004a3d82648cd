// Resize, padding with repeated elements, and their gradients: the matrices of base/axis_taps.h,
// run by line_maps.h; gradients run their transposes.
#include <algorithm>

#include "exec/cpu/line_maps.h"

namespace lowtide::exec_cpu {
namespace {

using Maps = std::vector<std::optional<AxisTaps>>;

// From the dims that Resize reads to those that it makes.
Result<Maps> resize_maps(const OpDesc& op, const TensorDesc& from, const TensorDesc& to,
                         bool transposes) {
  const std::string mode = word_attr(op, "mode", ""),
                    coordinates = word_attr(op, "coordinates", ""),
                    nearest = word_attr(op, "nearest", "floor");
  const Resample how{.mode = mode,
                     .coordinates = coordinates,
                     .nearest = nearest,
                     .cubic_a = real_attr(op, "cubic_a", -0.75),
                     .exclude_outside = int_attr(op, "exclude_outside", 0) != 0,
                     .antialias = int_attr(op, "antialias", 0) != 0};
  if (auto status = check(how); !status) return unsupported(op, status.error().message);
  LT_ASSIGN(const std::vector<double> scales, parse_reals(word_attr(op, "scales", "")));
  LT_ASSIGN(const std::vector<double> roi, parse_reals(word_attr(op, "roi", "")));
  const std::vector<int64_t> axes = list_attr(op, "axes", {});
  if ((!scales.empty() && scales.size() != axes.size()) ||
      (!roi.empty() && roi.size() != 2 * axes.size()))
    return unsupported(op, "scales and roi do not match the axes");
  Maps maps(from.dims.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(axes[i]);
    if (d >= from.dims.size() || d >= to.dims.size())
      return unsupported(op, "an axis out of range");
    ResampledLine line{.from = from.dims[d], .to = to.dims[d]};
    if (line.from == 0 && line.to != 0) return unsupported(op, "an empty line made longer");
    if (!scales.empty()) line.scale = scales[i];
    if (!roi.empty()) {
      line.roi_begin = roi[i];
      line.roi_end = roi[i + axes.size()];
    }
    maps[d] = resample_taps(how, line);
    if (transposes) maps[d] = transposed(*maps[d], line.from);
  }
  return maps;
}

Result<Built> build_resize(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  if (word_attr(op, "mode", "") != "nearest" && !is_float(op.inputs[0]->dtype))
    return unsupported(op, "interpolation of a type that is no float");
  LT_ASSIGN(Maps maps, resize_maps(op, *op.inputs[0], op.outputs[0], false));
  return build_line_maps(op, std::move(maps), real_attr(op, "extrapolation", 0));
}

Result<Built> build_resize_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(Maps maps, resize_maps(op, op.outputs[0], *op.inputs[0], true));
  return build_line_maps(op, std::move(maps), 0);
}

Result<Built> build_pad_repeat(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const bool transposes = op.kind == "PadRepeatGrad";
  const TensorDesc &from = transposes ? op.outputs[0] : *op.inputs[0],
                   &to = transposes ? *op.inputs[0] : op.outputs[0];
  const std::vector<int64_t> begins = list_attr(op, "begins", {}), ends = list_attr(op, "ends", {});
  if (from.dims.size() != to.dims.size() || begins.size() != from.dims.size() ||
      ends.size() != from.dims.size())
    return unsupported(op, "begins and ends do not match the rank");
  Maps maps(from.dims.size());
  for (size_t d = 0; d < maps.size(); ++d) {
    if (begins[d] == 0 && ends[d] == 0) continue;
    const int64_t left =
        from.dims[d] + std::min<int64_t>(begins[d], 0) + std::min<int64_t>(ends[d], 0);
    if (to.dims[d] != from.dims[d] + begins[d] + ends[d] || (left <= 0 && to.dims[d] > 0))
      return unsupported(op, "nothing to repeat");
    maps[d] = pad_taps(word_attr(op, "mode", ""), from.dims[d], begins[d], ends[d]);
    if (transposes) maps[d] = transposed(*maps[d], from.dims[d]);
  }
  return build_line_maps(op, std::move(maps), 0);
}

constexpr Entry kResamplingEntries[] = {
    {"Resize", "T -> T", "*", build_resize, nullptr, false, {}, false, true},
    {"ResizeGrad", "T -> T", "f32 f64", build_resize_grad, nullptr, false, {}, false, true},
    {"PadRepeat", "T -> T", "*", build_pad_repeat, nullptr, false, {}, false, true},
    {"PadRepeatGrad", "T -> T", "f32 f64", build_pad_repeat, nullptr, false, {}, false, true},
};

}  // namespace

std::span<const Entry> resampling_kernels() {
  return kResamplingEntries;
}

}  // namespace lowtide::exec_cpu
