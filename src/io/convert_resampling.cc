// Ops that read a tensor on another grid. Resize of every opset that is read, and Upsample, its
// name before opset 10: the new extents are those that ONNX Runtime computes: in float, from scales
// that are floats. A dimension that keeps its extent and scale is left out of the op, so that it
// can be split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/axis_taps.h"
#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// What becomes of one dimension.
struct Target {
  size_t dim = 0;
  Expr to = {};
  std::optional<float> scale = {};  // none: the ratio of the extents
  double roi_begin = 0, roi_end = 1;
};

Result<std::vector<double>> known_reals(NodeCall& call, size_t i, std::string_view what) {
  if (const HostValue* known = call.host(i)) return host_reals(*known);
  return error(ErrorCode::kInput,
               fmt::format("input {} (the {}) must be known when the model is read", i, what));
}

bool is_given(NodeCall& call, size_t i) {
  return call.has(i) && !(call.dims(i) == ir::Dims{Expr(0)});
}

// The scales of opset 7 are an attribute, of 9 and 10 input 1, since then input 2.
Result<std::vector<double>> scales_of(NodeCall& call) {
  if (call.node().op_type == "Upsample" && call.inputs() == 1) {
    const auto attr = call.node().attrs.find("scales");
    if (attr == call.node().attrs.end()) return error(ErrorCode::kInput, "has no scales");
    return attr->second.reals;
  }
  return known_reals(call, call.opset() < 11 || call.inputs() == 2 ? 1 : 2, "scales");
}

// floor(from * scale) as float arithmetic has it. Of a symbolic extent the product must be exact
// whatever its number: the scale is a fraction of small numbers.
Result<Expr> scaled_extent(const Expr& from, float scale) {
  if (const auto number = from.constant())
    return Expr(static_cast<int64_t>(scale * static_cast<float>(*number)));
  for (int64_t divisor = 1; divisor <= 64; divisor *= 2) {
    const float top = scale * static_cast<float>(divisor);
    if (top == std::floor(top) && top <= 64)
      return sym::floordiv(from * Expr(static_cast<int64_t>(top)), Expr(divisor));
  }
  return error(ErrorCode::kInput, fmt::format("scaled by {}, {}", scale, needs_number(from)));
}

// The extents that the scales give.
Status scale_targets(NodeCall& call, std::vector<Target>& targets) {
  LT_ASSIGN(const std::vector<double> scales, scales_of(call));
  if (scales.size() != targets.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} scales for {} dims", scales.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    Target& target = targets[i];
    const auto scale = static_cast<float>(scales[i]);
    if (!(scale > 0) || scale > 1e6f)
      return error(ErrorCode::kInput, fmt::format("scale {} of dim {}", scales[i], target.dim));
    const Expr from = call.dims(0)[target.dim];
    LT_ASSIGN(target.to, scaled_extent(from, scale));
    const auto before = from.constant(), after = target.to.constant();
    const bool is_ratio =
        before && after
            ? static_cast<float>(*after) / static_cast<float>(std::max<int64_t>(1, *before)) ==
                  scale
            : scale == std::floor(scale);
    if (!is_ratio) target.scale = scale;
  }
  return {};
}

// One scale for all axes: the smallest or largest of those that the sizes ask for.
Status keep_aspect_ratio(NodeCall& call, std::string_view policy, std::vector<Target>& targets) {
  if (policy != "not_larger" && policy != "not_smaller")
    return error(ErrorCode::kInput,
                 fmt::format("keep_aspect_ratio_policy '{}' is not known", policy));
  std::optional<float> scale;
  for (const Target& target : targets) {
    const Expr from = call.dims(0)[target.dim];
    if (!from.constant()) return error(ErrorCode::kInput, needs_number(from));
    if (!target.to.constant()) return error(ErrorCode::kInput, needs_number(target.to));
    const float own =
        static_cast<float>(*target.to.constant()) / static_cast<float>(*from.constant());
    if (!scale || (policy == "not_larger" ? own < *scale : own > *scale)) scale = own;
  }
  for (Target& target : targets) {
    target.scale = scale;
    const auto from = static_cast<float>(*call.dims(0)[target.dim].constant());
    target.to = static_cast<int64_t>(std::round(*scale * from));
  }
  return {};
}

Status size_targets(NodeCall& call, std::vector<Target>& targets) {
  LT_ASSIGN(const std::vector<Expr> sizes, call.sizes(3));
  if (sizes.size() != targets.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} sizes for {} dims", sizes.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) targets[i].to = sizes[i];
  const std::string policy = word_attr(call.node(), "keep_aspect_ratio_policy", "stretch");
  return policy == "stretch" ? Status() : keep_aspect_ratio(call, policy, targets);
}

Status read_roi(NodeCall& call, std::vector<Target>& targets) {
  LT_ASSIGN(const std::vector<double> roi, known_reals(call, 1, "roi"));
  if (roi.size() != 2 * targets.size())
    return error(ErrorCode::kInput,
                 fmt::format("a roi of {} numbers for {} dims", roi.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i].roi_begin = roi[i];
    targets[i].roi_end = roi[i + targets.size()];
  }
  return {};
}

bool stays(NodeCall& call, const Target& target) {
  return target.to == call.dims(0)[target.dim] && target.scale.value_or(1) == 1 &&
         target.roi_begin == 0 && target.roi_end == 1;
}

// Corners are aligned, and a region is sampled, over as many places as the scale gives: the
// specification takes scale times extent as it is, ONNX Runtime the extent that it is rounded to.
Status check_alignment(NodeCall& call, const std::vector<Target>& targets) {
  const std::string rule = word_attr(call.node(), "coordinate_transformation_mode", "half_pixel");
  if (rule != "align_corners" && rule != "tf_crop_and_resize") return {};
  for (const Target& target : targets) {
    const auto extent = call.dims(0)[target.dim].constant();
    if (!target.scale || !extent) continue;
    const double places = static_cast<double>(*target.scale) * static_cast<double>(*extent);
    if (std::fabs(places - std::round(places)) > 1e-4 * places)
      return error(ErrorCode::kInput,
                   fmt::format("{} with scale {} of extent {}, which gives no whole "
                               "number of places, is not taken",
                               rule, *target.scale, *extent));
  }
  return {};
}

ir::Attrs resize_attrs(NodeCall& call, const std::vector<Target>& targets, bool crops) {
  ir::Dims axes, sizes;
  std::vector<double> scales, roi, ends;
  bool has_scales = false;
  for (const Target& target : targets) {
    axes.emplace_back(static_cast<int64_t>(target.dim));
    sizes.push_back(target.to);
    has_scales = has_scales || target.scale;
    scales.push_back(static_cast<double>(target.scale.value_or(0)));
    roi.push_back(target.roi_begin);
    ends.push_back(target.roi_end);
  }
  roi.insert(roi.end(), ends.begin(), ends.end());
  const bool old = call.opset() < 11;
  std::string mode = word_attr(call.node(), "mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  ir::Attrs attrs = {{"axes", list(std::move(axes))}, {"sizes", list(std::move(sizes))}};
  attrs["coordinates"] =
      old ? word("asymmetric")
          : word(word_attr(call.node(), "coordinate_transformation_mode", "half_pixel"));
  if (mode == "nearest")
    attrs["nearest"] =
        old ? word("simple") : word(word_attr(call.node(), "nearest_mode", "round_prefer_floor"));
  if (mode == "cubic") attrs["cubic_a"] = real_attr(call.node(), "cubic_coeff_a", -0.75);
  for (const char* flag : {"exclude_outside", "antialias"})
    if (mode != "nearest" && int_attr(call.node(), flag, 0) != 0) attrs[flag] = int64_t{1};
  attrs["mode"] = word(mode);
  if (has_scales) attrs["scales"] = print_reals(scales);
  if (crops) {
    attrs["roi"] = print_reals(roi);
    attrs["extrapolation"] = real_attr(call.node(), "extrapolation_value", 0);
  }
  return attrs;
}

Status resize(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  std::vector<int64_t> all(rank);
  std::iota(all.begin(), all.end(), int64_t{0});
  LT_ASSIGN(const std::vector<size_t> axes,
            normal_axes(ints_attr(call.node(), "axes").value_or(all), rank));
  std::vector<Target> targets;
  for (size_t d : axes) targets.emplace_back().dim = d;
  if (is_given(call, 3)) {
    LT_RETURN_IF_ERROR(size_targets(call, targets));
  } else {
    LT_RETURN_IF_ERROR(scale_targets(call, targets));
  }
  LT_RETURN_IF_ERROR(check_alignment(call, targets));
  const bool crops = word_attr(call.node(), "coordinate_transformation_mode", "half_pixel") ==
                     "tf_crop_and_resize";
  if (crops) LT_RETURN_IF_ERROR(read_roi(call, targets));
  std::erase_if(targets, [&](const Target& target) { return stays(call, target); });
  if (targets.empty()) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Resize", {x}, resize_attrs(call, targets, crops));
}

// ---- sampling at given places ----

// Opset 20 renamed bilinear and bicubic.
Status grid_sample(NodeCall& call) {
  std::string mode = word_attr(call.node(), "mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId grid, call.value(1));
  return call.result("GridSample", {x, grid},
                     {{"mode", word(mode)},
                      {"padding", word(word_attr(call.node(), "padding_mode", "zeros"))},
                      {"align_corners", int64_t{int_attr(call.node(), "align_corners", 0) != 0}}});
}

// Place i of n on the line from -1 to 1: the middles of n cells, or points from end to end.
double place_on_line(int64_t i, int64_t n, bool aligned) {
  const auto step = static_cast<double>(i), count = static_cast<double>(n);
  if (aligned) return n == 1 ? 0 : 2 * step / (count - 1) - 1;
  return (2 * step + 1) / count - 1;
}

// Since opset 16 places are moved by half a pixel unless the file says otherwise.
Status roi_align(NodeCall& call) {
  const std::string places = word_attr(call.node(), "coordinate_transformation_mode",
                                       call.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (places != "half_pixel" && places != "output_half_pixel")
    return error(ErrorCode::kInput,
                 fmt::format("coordinate_transformation_mode '{}' is not known", places));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId boxes, call.value(1));
  LT_ASSIGN(const ValueId images, call.value(2));
  return call.result("RoiAlign", {x, images, boxes},
                     {{"mode", word(word_attr(call.node(), "mode", "avg"))},
                      {"height", int_attr(call.node(), "output_height", 1)},
                      {"width", int_attr(call.node(), "output_width", 1)},
                      {"sampling_ratio", int_attr(call.node(), "sampling_ratio", 0)},
                      {"scale", real_attr(call.node(), "spatial_scale", 1)},
                      {"half_pixel", int64_t{places == "half_pixel"}}});
}

// Every point of a regular grid as (x, y, 1) or (x, y, z, 1), a constant, times the affine maps.
Status affine_grid(NodeCall& call) {
  LT_ASSIGN(const std::vector<int64_t> size, call.integers(1));
  const size_t dims = size.size() < 2 ? 0 : size.size() - 2;
  const ir::Dims maps = call.dims(0);
  if ((dims != 2 && dims != 3) || maps.size() != 3 ||
      !(maps[2] == Expr(static_cast<int64_t>(dims) + 1)))
    return error(ErrorCode::kInput,
                 fmt::format("a size of {} numbers for maps of rank {}", size.size(), maps.size()));
  const bool aligned = int_attr(call.node(), "align_corners", 0) != 0;
  HostValue points;
  points.dtype = call.dtype(0);
  const std::vector<int64_t> extents(size.begin() + 2, size.end());
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  if (count < 1 || count > kMaxHostElements / 4)
    return error(ErrorCode::kInput, fmt::format("a grid of {} points", count));
  if (aligned && std::find(extents.begin(), extents.end(), 1) != extents.end())
    return error(ErrorCode::kInput, "corners aligned over an extent of 1, which has one corner");
  std::vector<int64_t> at(dims, 0);
  for (int64_t p = 0; p < count; ++p, next_index(at, extents)) {
    for (size_t d = dims; d-- > 0;)
      points.reals.push_back(round_to(points.dtype, place_on_line(at[d], extents[d], aligned)));
    points.reals.push_back(1);
  }
  points.dims = {Expr(1), Expr(count), maps[2]};
  LT_ASSIGN(const ValueId base, call.inline_constant(points, "points"));
  LT_ASSIGN(const ValueId theta, call.value(0));
  LT_ASSIGN(const ValueId moved, call.emit("MatMul", {base, theta}, {{"trans_b", int64_t{1}}}));
  ir::Dims shape = {maps[0]};
  shape.insert(shape.end(), extents.begin(), extents.end());
  shape.push_back(maps[1]);
  return call.result("Reshape", {moved}, {{"shape", list(std::move(shape))}});
}

// The middle of each dimension, cut or padded with zeros to its target; the odd element goes to the
// end of what is cut or added.
Status center_crop_pad(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  std::vector<int64_t> all(from.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  LT_ASSIGN(const std::vector<size_t> axes,
            normal_axes(ints_attr(call.node(), "axes").value_or(all), from.size()));
  LT_ASSIGN(const std::vector<int64_t> targets, call.integers(1));
  if (targets.size() != axes.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} extents for {} dims", targets.size(), axes.size()));
  ir::Dims begins(from.size(), 0), ends(from.size(), 0), starts(from.size(), 0), sizes = from;
  bool adds = false, cuts = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = axes[i];
    if (!from[d].constant()) return error(ErrorCode::kInput, needs_number(from[d]));
    const int64_t more = targets[i] - *from[d].constant(), half = std::abs(more) / 2;
    if (targets[i] < 0)
      return error(ErrorCode::kInput, fmt::format("dim {} becomes {}", d, targets[i]));
    if (more > 0) {
      adds = true;
      begins[d] = half;
      ends[d] = more - half;
    } else if (more < 0) {
      cuts = true;
      starts[d] = half;
      sizes[d] = targets[i];
    }
  }
  if (!adds && !cuts) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(ValueId x, call.value(0));
  const ir::Attrs cut = {{"starts", list(std::move(starts))},
                         {"sizes", list(std::move(sizes))},
                         {"steps", ir::Dims(from.size(), Expr(1))}};
  const ir::Attrs pad = {
      {"begins", list(std::move(begins))}, {"ends", list(std::move(ends))}, {"value", 0.0}};
  if (!adds) return call.result("Slice", {x}, cut);
  if (cuts) {
    LT_ASSIGN(x, call.emit("Slice", {x}, cut));
  }
  return call.result("Pad", {x}, pad);
}

constexpr ConvertRow kResamplingRows[] = {
    {"AffineGrid", 2, affine_grid}, {"CenterCropPad", 2, center_crop_pad},
    {"GridSample", 2, grid_sample}, {"Resize", 1, resize},
    {"RoiAlign", 3, roi_align},     {"Upsample", 1, resize},
};

}  // namespace

std::span<const ConvertRow> resampling_conversions() {
  return kResamplingRows;
}

}  // namespace lowtide::io
