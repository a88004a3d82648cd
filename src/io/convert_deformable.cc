// DeformConv (Dai et al. 2017, arXiv 1703.06211; with a mask: Zhu et al. 2018, arXiv 1811.11168): a
// convolution whose taps are moved by offsets. It is a sampling of the image at every tap of every
// place, between pixels, and a product of the samples with the weights, a convolution of one tap:
//
//   places  = where the taps of a plain convolution stand + offsets  [n * groups, taps * o.., dims]
//   samples = GridSample(x, places)                                  [n, channels * taps, o..]
//   y       = Conv(samples * mask, weights as [k, channels * taps, 1..])
//
// So a planner sees the samples, taps times as large as x, which are what fills the memory. Places
// of 16 bits would be rounded to whole pixels in large images: they are computed in f32.
#include "io/convert_deformable.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/convert.h"
#include "io/convert_window.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"
#include "ops/signature.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;
using Numbers = std::vector<int64_t>;

struct Deformation {
  Numbers kernel, out, strides, dilations, begins;
  int64_t group = 1, groups = 1;  // of the weights, of the offsets
  int64_t channels = 0, taps = 1;
  size_t dims() const { return kernel.size(); }
};

Result<Numbers> numbers_of(const ir::Attrs& attrs, std::string_view name) {
  return constant_dims(std::get<ir::Dims>(attrs.find(name)->second));
}

// The extents that the places must have, against those that they have.
Status check_offsets(NodeCall& call, const Deformation& d, size_t input, int64_t per_tap) {
  ir::Dims wanted = {call.dims(0)[0], Expr(d.groups * d.taps * per_tap)};
  wanted.insert(wanted.end(), d.out.begin(), d.out.end());
  if (call.dims(input) == wanted) return {};
  return error(ErrorCode::kInput,
               fmt::format("input {} ('{}') is {}, wanted {}", input, call.node().inputs[input],
                           ops::print(call.dims(input)), ops::print(wanted)));
}

Result<Deformation> deformation(NodeCall& call) {
  LT_ASSIGN(const ir::Attrs attrs, conv_attrs(call, 1));
  Deformation d;
  LT_ASSIGN(const Numbers weights, constant_dims(call.dims(1)));
  d.kernel.assign(weights.begin() + 2, weights.end());
  if (d.dims() != 2 && d.dims() != 3)
    return error(ErrorCode::kInput, fmt::format("{} spatial dims, not 2 or 3", d.dims()));
  LT_ASSIGN(d.strides, numbers_of(attrs, "strides"));
  LT_ASSIGN(d.dilations, numbers_of(attrs, "dilations"));
  LT_ASSIGN(const Numbers pads, numbers_of(attrs, "pads"));
  d.begins.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(d.dims()));
  ir::Dims from = call.dims(0);
  from[0] = 1;
  LT_ASSIGN(const Numbers image, constant_dims(from));
  for (size_t i = 0; i < d.dims(); ++i) {
    const int64_t reach = d.dilations[i] * (d.kernel[i] - 1) + 1;
    const int64_t room = image[i + 2] + pads[i] + pads[i + d.dims()] - reach;
    if (room < 0)
      return error(ErrorCode::kInput, fmt::format("a window of {} in {} with pads {} and {}", reach,
                                                  image[i + 2], pads[i], pads[i + d.dims()]));
    d.out.push_back(room / d.strides[i] + 1);
    d.taps *= d.kernel[i];
  }
  d.channels = image[1];
  d.group = int_attr(call.node(), "group", 1);
  d.groups = int_attr(call.node(), "offset_group", 1);
  if (d.group < 1 || d.groups < 1 || d.channels % d.groups != 0 ||
      weights[1] * d.group != d.channels)
    return error(ErrorCode::kInput,
                 fmt::format("{} channels, weights for {} in {} groups, {} groups of offsets",
                             d.channels, weights[1], d.group, d.groups));
  LT_RETURN_IF_ERROR(check_offsets(call, d, 2, static_cast<int64_t>(d.dims())));
  if (call.has(4)) LT_RETURN_IF_ERROR(check_offsets(call, d, 4, 1));
  return d;
}

Result<ValueId> shaped(NodeCall& call, ValueId x, std::vector<Expr> dims) {
  if (call.of(x).dims == dims) return x;
  return call.emit("Reshape", {x}, {{"shape", list(std::move(dims))}});
}

Result<ValueId> in_float_type(NodeCall& call, ValueId x, DType type) {
  if (call.of(x).dtype == type) return x;
  return call.emit("Cast", {x}, {{"to", word(lowtide::name(type))}});
}

// One term of where a plain convolution's taps stand: [.., count, .., dims], other extents being 1.
Result<ValueId> place_term(NodeCall& call, const Deformation& d, DType type, size_t dim,
                           Numbers extents, const std::vector<Numbers>& points) {
  HostValue value;
  value.dtype = type;
  extents.push_back(static_cast<int64_t>(d.dims()));
  value.dims.assign(extents.begin(), extents.end());
  for (const Numbers& point : points)
    value.reals.insert(value.reals.end(), point.begin(), point.end());
  return call.inline_constant(value, fmt::format("places{}", dim));
}

// Where they stand: the tap's part and one for each dim of the places, whole numbers, so that the
// offsets are all that is rounded.
Result<ValueId> standing(NodeCall& call, const Deformation& d, DType type) {
  std::vector<Numbers> points;
  for (int64_t tap = 0; tap < d.taps; ++tap) {
    Numbers point(d.dims());
    int64_t rest = tap;
    for (size_t i = d.dims(); i-- > 0; rest /= d.kernel[i])
      point[i] = rest % d.kernel[i] * d.dilations[i] - d.begins[i];
    points.push_back(std::move(point));
  }
  Numbers extents(d.dims() + 1, 1);
  extents[0] = d.taps;
  LT_ASSIGN(ValueId sum, place_term(call, d, type, 0, extents, points));
  for (size_t i = 0; i < d.dims(); ++i) {
    points.assign(static_cast<size_t>(d.out[i]), Numbers(d.dims(), 0));
    for (size_t at = 0; at < points.size(); ++at)
      points[at][i] = static_cast<int64_t>(at) * d.strides[i];
    extents.assign(d.dims() + 1, 1);
    extents[i + 1] = d.out[i];
    LT_ASSIGN(const ValueId along, place_term(call, d, type, i + 1, extents, points));
    LT_ASSIGN(sum, call.emit("Add", {sum, along}));
  }
  return sum;
}

// [n * groups, taps * o.., dims]: a coordinate for each dim, in pixels.
Result<ValueId> places_of_taps(NodeCall& call, const Deformation& d, DType type) {
  const Expr planes = call.dims(0)[0] * Expr(d.groups);
  LT_ASSIGN(ValueId offsets, call.value(2));
  std::vector<Expr> apart = {planes, Expr(d.taps), Expr(static_cast<int64_t>(d.dims()))};
  apart.insert(apart.end(), d.out.begin(), d.out.end());
  LT_ASSIGN(offsets, shaped(call, offsets, std::move(apart)));
  Numbers perm = {0, 1};
  for (size_t i = 0; i < d.dims(); ++i) perm.push_back(static_cast<int64_t>(i) + 3);
  perm.push_back(2);
  LT_ASSIGN(offsets, call.emit("Transpose", {offsets}, {{"perm", list(perm)}}));
  LT_ASSIGN(offsets, in_float_type(call, offsets, type));
  LT_ASSIGN(const ValueId still, standing(call, d, type));
  LT_ASSIGN(const ValueId places, call.emit("Add", {offsets, still}));
  std::vector<Expr> dims = {planes, Expr(d.taps * d.out[0])};
  dims.insert(dims.end(), d.out.begin() + 1, d.out.end());
  dims.emplace_back(static_cast<int64_t>(d.dims()));
  return shaped(call, places, std::move(dims));
}

// [n, channels * taps, o..], with the mask applied.
Result<ValueId> samples_of(NodeCall& call, const Deformation& d) {
  const Expr batch = call.dims(0)[0], planes = batch * Expr(d.groups);
  const DType own = call.dtype(0), type = own == DType::kF64 ? DType::kF64 : DType::kF32;
  LT_ASSIGN(ValueId image, call.value(0));
  std::vector<Expr> apart = {planes, Expr(d.channels / d.groups)};
  const ir::Dims whole = call.dims(0);
  apart.insert(apart.end(), whole.begin() + 2, whole.end());
  LT_ASSIGN(image, shaped(call, image, std::move(apart)));
  LT_ASSIGN(image, in_float_type(call, image, type));
  LT_ASSIGN(const ValueId places, places_of_taps(call, d, type));
  LT_ASSIGN(ValueId samples, call.emit("GridSample", {image, places},
                                       {{"mode", word("linear")},
                                        {"padding", word("zeros")},
                                        {"align_corners", int64_t{0}},
                                        {"pixels", int64_t{1}}}));
  LT_ASSIGN(samples, in_float_type(call, samples, own));
  if (call.has(4)) {
    std::vector<Expr> dims = call.of(samples).dims;
    dims[1] = 1;
    LT_ASSIGN(ValueId mask, call.value(4));
    LT_ASSIGN(mask, shaped(call, mask, std::move(dims)));
    LT_ASSIGN(samples, call.emit("Mul", {samples, mask}));
  }
  std::vector<Expr> together = {batch, Expr(d.channels * d.taps)};
  together.insert(together.end(), d.out.begin(), d.out.end());
  return shaped(call, samples, std::move(together));
}

Status deformable(NodeCall& call) {
  if (!is_float(call.dtype(0)))
    return error(ErrorCode::kInput,
                 fmt::format("input 0 is {}, not floats", lowtide::name(call.dtype(0))));
  LT_ASSIGN(const Deformation d, deformation(call));
  LT_ASSIGN(const ValueId samples, samples_of(call, d));
  LT_ASSIGN(ValueId weights, call.value(1));
  std::vector<Expr> dims(d.dims() + 2, Expr(1));
  dims[0] = call.dims(1)[0];
  dims[1] = d.channels / d.group * d.taps;
  LT_ASSIGN(weights, shaped(call, weights, std::move(dims)));
  std::vector<ValueId> inputs = {samples, weights};
  if (call.has(3)) {
    LT_ASSIGN(const ValueId bias, call.value(3));
    inputs.push_back(bias);
  }
  return call.result("Conv", std::move(inputs),
                     {{"strides", list(Numbers(d.dims(), 1))},
                      {"pads", list(Numbers(2 * d.dims(), 0))},
                      {"dilations", list(Numbers(d.dims(), 1))},
                      {"group", d.group}});
}

constexpr ConvertRow kDeformableRows[] = {{"DeformConv", 3, deformable}};

}  // namespace

std::span<const ConvertRow> deformable_conversions() {
  return kDeformableRows;
}

}  // namespace lowtide::io
