// Ops that rearrange elements, on host values. All are a `remap`: the element at an index of the
// result is the element of the input at an affine function of that index, in both forms alike.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using sym::Expr;
using Form = HostValue::Form;

HostResult fold_identity(const HostCall& call) {
  return single(call.in(0));
}

HostResult fold_squeeze(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const auto axes, axes_of(call, 1, x.dims.size()));
  ir::Dims dims;
  std::vector<size_t> kept;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const bool named = axes && std::find(axes->begin(), axes->end(), d) != axes->end();
    if (named && x.dims[d].is_constant() && !(x.dims[d] == Expr(1)))
      return error(ErrorCode::kInput,
                   fmt::format("dim {} has extent {}, not 1", d, sym::print(x.dims[d])));
    if (named || (!axes && x.dims[d] == Expr(1))) continue;
    kept.push_back(d);
    dims.push_back(x.dims[d]);
  }
  std::vector<Affine> inner(x.dims.size(), flat(0, dims.size()));
  for (size_t d = 0; d < kept.size(); ++d) inner[kept[d]] = along(d, dims.size());
  return single(remap(x, std::move(dims), inner));
}

HostResult fold_unsqueeze(const HostCall& call) {
  const HostValue& x = call.in(0);
  std::vector<int64_t> axes = ints_attr(call.node, "axes").value_or(std::vector<int64_t>());
  if (call.has(1)) {
    LT_ASSIGN(axes, host_constants(call.in(1)));
  }
  const size_t rank = x.dims.size() + axes.size();
  LT_ASSIGN(const std::vector<size_t> normal, normal_axes(axes, rank));
  ir::Dims dims(rank, Expr(1));
  std::vector<Affine> inner;
  for (size_t d = 0; d < rank; ++d) {
    if (std::find(normal.begin(), normal.end(), d) != normal.end()) continue;
    dims[d] = x.dims[inner.size()];
    inner.push_back(along(d, rank));
  }
  return single(remap(x, std::move(dims), inner));
}

// Adding and dropping extents of 1 keeps formulas; any other new shape needs the elements, or all
// elements alike.
Result<HostValue> reshape(const HostValue& x, ir::Dims dims) {
  const auto real_dims = [](const ir::Dims& all) {
    std::vector<size_t> places;
    for (size_t d = 0; d < all.size(); ++d)
      if (!(all[d] == Expr(1))) places.push_back(d);
    return places;
  };
  const std::vector<size_t> from = real_dims(x.dims), to = real_dims(dims);
  bool same = from.size() == to.size();
  for (size_t d = 0; same && d < from.size(); ++d) same = x.dims[from[d]] == dims[to[d]];
  if (same) {
    std::vector<Affine> inner(x.dims.size(), flat(0, dims.size()));
    for (size_t d = 0; d < from.size(); ++d) inner[from[d]] = along(to[d], dims.size());
    return remap(x, std::move(dims), inner);
  }
  const bool alike =
      x.form == Form::kIndexed && x.cell.integer.is_flat() && x.cell.conditions.empty();
  if (alike) return remap(x, dims, std::vector<Affine>(x.dims.size(), flat(0, dims.size())));
  auto dense = densify(x);
  if (!dense) return host_unknown(x.dtype, std::move(dims), dense.error().message);
  dense->dims = std::move(dims);
  return dense;
}

HostResult fold_reshape(const HostCall& call) {
  LT_ASSIGN(const std::vector<Expr> target, host_ints(call.in(1)));
  LT_ASSIGN(ir::Dims dims,
            reshape_dims(call.in(0).dims, target, int_attr(call.node, "allowzero", 0) != 0));
  return single(reshape(call.in(0), std::move(dims)));
}

HostResult fold_flatten(const HostCall& call) {
  const ir::Dims& dims = call.in(0).dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  const int64_t axis = int_attr(call.node, "axis", 1);
  if (axis < -rank || axis > rank)
    return error(ErrorCode::kInput, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  const size_t cut = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const std::span<const Expr> all(dims);
  return single(reshape(call.in(0), {product(all.first(cut)), product(all.subspan(cut))}));
}

HostResult fold_transpose(const HostCall& call) {
  const HostValue& x = call.in(0);
  const size_t rank = x.dims.size();
  std::vector<int64_t> perm;
  for (size_t d = rank; d-- > 0;) perm.push_back(static_cast<int64_t>(d));
  if (const auto given = ints_attr(call.node, "perm")) perm = *given;
  if (perm.size() != rank)
    return error(ErrorCode::kInput, fmt::format("perm of {} dims for rank {}", perm.size(), rank));
  LT_ASSIGN(const std::vector<size_t> order, normal_axes(perm, rank));
  ir::Dims dims;
  std::vector<Affine> inner(rank);
  for (size_t d = 0; d < rank; ++d) {
    dims.push_back(x.dims[order[d]]);
    inner[order[d]] = along(d, rank);
  }
  return single(remap(x, std::move(dims), inner));
}

Result<HostValue> sliced(const HostValue& x, const Cut& cut) {
  const size_t rank = x.dims.size();
  std::vector<Affine> inner;
  for (size_t d = 0; d < rank; ++d) {
    Affine place = scaled(along(d, rank), cut.steps[d]);
    place.base = cut.starts[d];
    inner.push_back(std::move(place));
  }
  return remap(x, cut.sizes, inner);
}

HostResult fold_slice(const HostCall& call) {
  const HostValue& x = call.in(0);
  std::vector<Expr> bounds[2];
  std::vector<int64_t> axes, steps;
  if (call.inputs.size() > 1) {
    if (!call.has(1) || !call.has(2))
      return error(ErrorCode::kInput, "Slice without starts or ends");
    for (size_t i = 0; i < 2; ++i) {
      LT_ASSIGN(bounds[i], host_ints(call.in(i + 1)));
    }
    if (call.has(3)) {
      LT_ASSIGN(axes, host_constants(call.in(3)));
    }
    if (call.has(4)) {
      LT_ASSIGN(steps, host_constants(call.in(4)));
    }
  } else {
    const auto starts = ints_attr(call.node, "starts"), ends = ints_attr(call.node, "ends");
    if (!starts || !ends) return error(ErrorCode::kInput, "Slice without starts or ends");
    bounds[0].assign(starts->begin(), starts->end());
    bounds[1].assign(ends->begin(), ends->end());
    axes = ints_attr(call.node, "axes").value_or(axes);
  }
  LT_ASSIGN(const std::vector<size_t> normal, normal_axes(axes, x.dims.size()));
  LT_ASSIGN(const Cut cut, slice_cut(x.dims, bounds[0], bounds[1], normal, steps));
  return single(sliced(x, cut));
}

HostResult fold_split(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), x.dims.size()));
  std::vector<int64_t> sizes = ints_attr(call.node, "split").value_or(std::vector<int64_t>());
  if (call.has(1)) {
    LT_ASSIGN(sizes, host_constants(call.in(1)));
  }
  const size_t parts = call.node.outputs.size();
  if (parts == 0) return error(ErrorCode::kInput, "Split without outputs");
  if (sizes.empty()) {
    const auto extent = x.dims[axis].constant();
    if (!extent) return error(ErrorCode::kInput, needs_number(x.dims[axis]));
    const int64_t part = (*extent + static_cast<int64_t>(parts) - 1) / static_cast<int64_t>(parts);
    for (size_t i = 0; i < parts; ++i)
      sizes.push_back(std::min(part, *extent - part * static_cast<int64_t>(i)));
  }
  if (sizes.size() != parts)
    return error(ErrorCode::kInput, fmt::format("{} sizes for {} parts", sizes.size(), parts));
  std::vector<HostValue> outputs;
  Cut cut{ir::Dims(x.dims.size()), x.dims, std::vector<int64_t>(x.dims.size(), 1)};
  for (int64_t size : sizes) {
    cut.sizes[axis] = size;
    LT_ASSIGN(HostValue part, sliced(x, cut));
    outputs.push_back(std::move(part));
    cut.starts[axis] = cut.starts[axis] + Expr(size);
  }
  return outputs;
}

Result<HostValue> expanded(const HostValue& x, const ir::Dims& target) {
  LT_ASSIGN(ir::Dims dims, broadcast(x.dims, target));
  const size_t rank = dims.size();
  return remap(x, std::move(dims), broadcast_map(x.dims, rank));
}

HostResult fold_expand(const HostCall& call) {
  LT_ASSIGN(const std::vector<Expr> target, host_ints(call.in(1)));
  return single(expanded(call.in(0), target));
}

HostResult fold_tile(const HostCall& call) {
  LT_ASSIGN(const HostValue x, densify(call.in(0)));
  LT_ASSIGN(const std::vector<int64_t> repeats, host_constants(call.in(1)));
  if (repeats.size() != x.dims.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} repeats for rank {}", repeats.size(), x.dims.size()));
  // [a b] repeated (r s) is [r a s b] read as [1 a 1 b], flattened.
  ir::Dims wide, dims;
  std::vector<Affine> inner;
  for (size_t d = 0; d < repeats.size(); ++d) {
    wide.emplace_back(repeats[d]);
    wide.push_back(x.dims[d]);
    dims.push_back(x.dims[d] * Expr(repeats[d]));
    inner.push_back(along(2 * d + 1, 2 * repeats.size()));
  }
  LT_ASSIGN(HostValue copies, remap(x, std::move(wide), inner));
  LT_ASSIGN(HostValue dense, densify(copies));
  dense.dims = std::move(dims);
  return single(std::move(dense));
}

HostResult fold_constant_of_shape(const HostCall& call) {
  LT_ASSIGN(const std::vector<Expr> shape, host_ints(call.in(0)));
  HostValue element = host_scalar(0);
  element.dtype = DType::kF32;
  element.ints.clear();
  element.reals = {0};
  const auto value = call.node.attrs.find("value");
  if (value != call.node.attrs.end() && value->second.tensor) {
    LT_ASSIGN(element, host_from_tensor(*value->second.tensor));
    if (std::max(element.ints.size(), element.reals.size()) != 1)
      return error(ErrorCode::kInput, "ConstantOfShape takes a value of one element");
    LT_ASSIGN(element, reshape(element, {}));
  }
  return single(remap(element, shape, {}));
}

// Floats step as the sum of their type does.
HostResult range_of_reals(const HostCall& call) {
  double bound[3];
  for (size_t i = 0; i < 3; ++i) {
    LT_ASSIGN(const std::vector<double> value, host_reals(call.in(i)));
    if (value.size() != 1) return error(ErrorCode::kInput, "Range takes scalars");
    bound[i] = value[0];
  }
  HostValue range;
  range.dtype = call.in(0).dtype;
  const double count = std::ceil(round_to(range.dtype, bound[1] - bound[0]) / bound[2]);
  if (std::isnan(count) || count > static_cast<double>(kMaxHostElements))
    return error(ErrorCode::kInput,
                 fmt::format("a Range from {} to {} in steps of {}", bound[0], bound[1], bound[2]));
  for (double i = 0, at = bound[0]; i < count; ++i, at = round_to(range.dtype, at + bound[2]))
    range.reals.push_back(at);
  range.dims = {Expr(static_cast<int64_t>(range.reals.size()))};
  return single(std::move(range));
}

HostResult fold_range(const HostCall& call) {
  if (is_float(call.in(0).dtype)) return range_of_reals(call);
  Expr bound[3];
  for (size_t i = 0; i < 3; ++i) {
    LT_ASSIGN(const std::vector<Expr> value, host_ints(call.in(i)));
    if (value.size() != 1) return error(ErrorCode::kInput, "Range takes scalars");
    bound[i] = value[0];
  }
  const auto step = bound[2].constant();
  if (!step || *step == 0)
    return error(ErrorCode::kInput, "Range needs a step that is a number other than 0");
  const Expr span = *step > 0 ? bound[1] - bound[0] : bound[0] - bound[1];
  Expr extent = std::abs(*step) == 1 ? span : sym::ceildiv(span, std::abs(*step));
  if (extent.constant() && *extent.constant() < 0) extent = 0;
  HostValue range;
  range.dtype = call.in(0).dtype;
  range.dims = {extent};
  range.form = Form::kIndexed;
  range.cell.integer = scaled(along(0, 1), bound[2]);
  range.cell.integer.base = bound[0];
  return single(std::move(range));
}

constexpr HostRow kHostMoveRows[] = {
    {"Identity", "*", fold_identity},
    {"Squeeze", "* i?", fold_squeeze},
    {"Unsqueeze", "* i?", fold_unsqueeze},
    {"Reshape", "* i", fold_reshape},
    {"Flatten", "*", fold_flatten},
    {"Transpose", "*", fold_transpose},
    {"Slice", "* i? i? i? i?", fold_slice},
    {"Split", "* i?", fold_split},
    {"Expand", "* i", fold_expand},
    {"Tile", "* i", fold_tile},
    {"ConstantOfShape", "i", fold_constant_of_shape},
    {"Range", "T T T", fold_range},
};

}  // namespace

std::span<const HostRow> host_move_rows() {
  return kHostMoveRows;
}

}  // namespace lowtide::io
