// Ops that move elements, on host values. Nearly all are a `remap`: the element at an index of the
// result is the element of the input at an affine function of that index, in both forms alike. The
// rest joins (Concat), looks up (Gather), or counts.
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

HostResult one(Result<HostValue> value) {
  if (!value) return tl::unexpected<Error>(value.error());
  std::vector<HostValue> outputs;
  outputs.push_back(std::move(*value));
  return outputs;
}

// Axes given as attribute (old opsets) or input (new ones); none when neither.
Result<std::optional<std::vector<size_t>>> axes_of(const HostCall& call, size_t input,
                                                   size_t rank) {
  std::optional<std::vector<int64_t>> axes = ints_attr(call.node, "axes");
  if (call.has(input)) {
    LT_ASSIGN(axes, host_constants(call.in(input)));
  }
  if (!axes) return std::optional<std::vector<size_t>>();
  LT_ASSIGN(std::vector<size_t> normal, normal_axes(*axes, rank));
  return std::optional(std::move(normal));
}

HostResult fold_identity(const HostCall& call) {
  return one(call.in(0));
}

HostResult fold_squeeze(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const auto axes, axes_of(call, 1, x.dims.size()));
  ir::Dims dims;
  std::vector<size_t> kept;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const bool named = axes && std::find(axes->begin(), axes->end(), d) != axes->end();
    if (named || (!axes && x.dims[d] == Expr(1))) continue;
    kept.push_back(d);
    dims.push_back(x.dims[d]);
  }
  std::vector<Affine> inner(x.dims.size(), flat(0, dims.size()));
  for (size_t d = 0; d < kept.size(); ++d) inner[kept[d]] = along(d, dims.size());
  return one(remap(x, std::move(dims), inner));
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
  return one(remap(x, std::move(dims), inner));
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
  return one(reshape(call.in(0), std::move(dims)));
}

HostResult fold_flatten(const HostCall& call) {
  const ir::Dims& dims = call.in(0).dims;
  const int64_t axis = int_attr(call.node, "axis", 1);
  const size_t split = axis == static_cast<int64_t>(dims.size()) ? dims.size() : 0;
  size_t cut = split;
  if (split == 0) {
    LT_ASSIGN(cut, normal_axis(axis, dims.size()));
  }
  const std::span<const Expr> all(dims);
  return one(reshape(call.in(0), {product(all.first(cut)), product(all.subspan(cut))}));
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
  return one(remap(x, std::move(dims), inner));
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
  return one(sliced(x, cut));
}

HostResult fold_split(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), x.dims.size()));
  std::vector<int64_t> sizes = ints_attr(call.node, "split").value_or(std::vector<int64_t>());
  if (call.has(1)) {
    LT_ASSIGN(sizes, host_constants(call.in(1)));
  }
  const size_t parts = call.node.outputs.size();
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
  return one(expanded(call.in(0), target));
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
  return one(std::move(dense));
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
    LT_ASSIGN(element, reshape(element, {}));
  }
  return one(remap(element, shape, {}));
}

HostResult fold_range(const HostCall& call) {
  if (is_float(call.in(0).dtype))
    return error(ErrorCode::kInput, "a Range of floats is not folded");
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
  return one(std::move(range));
}

// ---- joining
// -------------------------------------------------------------------------------------------------------

// Whether `whole`, a formula over the joined value, gives `piece` at each of its places along
// `axis`, [offset, offset + extent).
bool covers(const Affine& whole, const Affine& piece, size_t axis, const Expr& offset,
            int64_t extent) {
  for (int64_t i = 0; i < extent; ++i) {
    std::vector<Affine> at_place;
    for (size_t d = 0; d < whole.slope.size(); ++d)
      at_place.push_back(along(d, whole.slope.size()));
    at_place[axis] = flat(i, whole.slope.size());
    const Affine right = compose(piece, at_place, whole.slope.size());
    at_place[axis].base = offset + Expr(i);
    if (!(compose(whole, at_place, whole.slope.size()) == right)) return false;
  }
  return true;
}

// One integer formula for all pieces: that of the last or first piece, carried on, when the others
// (of few places) agree.
std::optional<Cell> joined_cell(const std::vector<HostValue>& pieces,
                                const std::vector<Expr>& offsets, size_t axis) {
  const size_t rank = pieces[0].dims.size();
  for (size_t k = pieces.size(); k-- > 0;) {
    std::vector<Affine> moved;
    for (size_t d = 0; d < rank; ++d) moved.push_back(along(d, rank));
    moved[axis].base = -offsets[k];
    const Cell whole = compose(pieces[k].cell, moved, rank);
    bool agree = true;
    for (size_t i = 0; agree && i < pieces.size(); ++i) {
      const auto extent = pieces[i].dims[axis].constant();
      if (i != k)
        agree = extent && *extent <= 64 &&
                covers(whole.integer, pieces[i].cell.integer, axis, offsets[i], *extent);
    }
    if (agree) return whole;
  }
  return std::nullopt;
}

std::optional<HostValue> joined_formula(const HostCall& call, HostValue result, size_t axis) {
  if (is_float(result.dtype) || result.dtype == DType::kBool) return std::nullopt;
  std::vector<HostValue> pieces;
  std::vector<Expr> offsets;
  Expr offset = 0;
  bool columns = axis + 1 == result.dims.size();
  for (const HostValue* input : call.inputs) {
    const auto piece = as_indexed(*input);
    if (!piece) return std::nullopt;
    offsets.push_back(offset);
    offset = offset + piece->dims[axis];
    columns &= piece->dims[axis] == Expr(1);
    pieces.push_back(*piece);
  }
  if (const auto cell = joined_cell(pieces, offsets, axis)) {
    result.form = Form::kIndexed;
    result.cell = *cell;
    return result;
  }
  if (!columns) return std::nullopt;
  result.form = Form::kColumns;
  for (const HostValue& piece : pieces) {
    result.columns.push_back(piece.cell);
    result.columns.back().integer.slope[axis] = 0;
  }
  return result;
}

Result<HostValue> join_dense(const HostCall& call, HostValue result, size_t axis) {
  std::vector<HostValue> pieces;
  for (const HostValue* input : call.inputs) {
    LT_ASSIGN(HostValue piece, densify(*input));
    pieces.push_back(std::move(piece));
  }
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  size_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(extents[d]);
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  for (size_t row = 0; row < outer; ++row) {
    for (const HostValue& piece : pieces) {
      const size_t count = static_cast<size_t>(*piece.dims[axis].constant()) * inner;
      for (size_t i = row * count; i < (row + 1) * count; ++i) {
        if (is_float(result.dtype))
          result.reals.push_back(piece.reals[i]);
        else
          result.ints.push_back(piece.ints[i]);
      }
    }
  }
  return result;
}

HostResult fold_concat(const HostCall& call) {
  const HostValue& first = call.in(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), first.dims.size()));
  HostValue result;
  result.dtype = first.dtype;
  result.dims = first.dims;
  result.dims[axis] = 0;
  bool formula = false;
  for (const HostValue* input : call.inputs) {
    if (input == nullptr || input->dtype != first.dtype || input->dims.size() != first.dims.size())
      return error(ErrorCode::kInput, "Concat of values of different types or ranks");
    result.dims[axis] = result.dims[axis] + input->dims[axis];
    formula |= input->form != Form::kDense;
  }
  if (formula || is_large(result.dims))
    if (auto joined = joined_formula(call, result, axis)) return one(std::move(*joined));
  auto dense = join_dense(call, result, axis);
  if (dense || !formula) return one(std::move(dense));
  return one(host_unknown(result.dtype, result.dims, dense.error().message));
}

// ---- looking up
// ----------------------------------------------------------------------------------------------------

// data[.., indices, ..] where indices are a formula: a remap whose index along the axis is that
// formula.
HostResult gather_formula(const HostValue& data, const HostValue& indices, size_t axis) {
  const size_t extra = indices.dims.size();
  const size_t rank = data.dims.size() + extra - 1;
  ir::Dims dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              data.dims.end());
  std::vector<Affine> index_map, inner;
  for (size_t d = 0; d < extra; ++d) index_map.push_back(along(axis + d, rank));
  for (size_t d = 0; d < data.dims.size(); ++d)
    inner.push_back(along(d < axis ? d : d + extra - 1, rank));
  if (extra == 0)
    for (size_t d = axis + 1; d < data.dims.size(); ++d) inner[d] = along(d - 1, rank);
  inner[axis] = compose(indices.cell.integer, index_map, rank);
  if (const auto number = inner[axis].constant(); number && *number < 0)
    inner[axis].base = inner[axis].base + data.dims[axis];
  return one(remap(data, std::move(dims), inner));
}

HostResult fold_gather(const HostCall& call) {
  const HostValue& data = call.in(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), data.dims.size()));
  if (data.form == Form::kUnknown) return error(ErrorCode::kInput, data.reason);
  if (const auto indices = as_indexed(call.in(1))) return gather_formula(data, *indices, axis);
  LT_ASSIGN(const std::vector<int64_t> places, host_constants(call.in(1)));
  // One index at a time, joined along a new leading dim of the axis: indices are few, or formulas.
  LT_ASSIGN(const HostValue table, densify(data));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(table.dims));
  size_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(extents[d]);
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  HostValue result;
  result.dtype = data.dtype;
  result.dims.assign(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  result.dims.insert(result.dims.end(), call.in(1).dims.begin(), call.in(1).dims.end());
  result.dims.insert(result.dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                     data.dims.end());
  LT_RETURN_IF_ERROR(constant_count(result.dims).map([](int64_t) {}));
  for (size_t row = 0; row < outer; ++row) {
    for (int64_t place : places) {
      const int64_t normal = place < 0 ? place + extents[axis] : place;
      if (normal < 0 || normal >= extents[axis])
        return error(ErrorCode::kInput,
                     fmt::format("index {} into a dim of {}", place, extents[axis]));
      const size_t start =
          (row * static_cast<size_t>(extents[axis]) + static_cast<size_t>(normal)) * inner;
      for (size_t i = start; i < start + inner; ++i) {
        if (is_float(result.dtype))
          result.reals.push_back(table.reals[i]);
        else
          result.ints.push_back(table.ints[i]);
      }
    }
  }
  return one(std::move(result));
}

// The index tuple of a GatherND as formulas over the leading dims of the indices, if it is one.
std::vector<Affine> index_tuple(const HostValue& indices, size_t rank) {
  std::vector<Affine> tuple;
  const size_t lead = indices.dims.size() - 1;
  std::vector<Affine> inner;
  for (size_t d = 0; d < lead; ++d) inner.push_back(along(d, rank));
  inner.push_back(flat(0, rank));
  if (indices.form == Form::kColumns)
    for (const Cell& column : indices.columns)
      tuple.push_back(compose(column.integer, inner, rank));
  if (indices.form == Form::kIndexed) {
    const auto width = indices.dims.back().constant();
    for (int64_t k = 0; width && k < *width; ++k) {
      inner.back().base = k;
      tuple.push_back(compose(indices.cell.integer, inner, rank));
    }
  }
  return tuple;
}

HostResult fold_gather_nd(const HostCall& call) {
  const HostValue& data = call.in(0);
  const HostValue& indices = call.in(1);
  if (int_attr(call.node, "batch_dims", 0) != 0)
    return error(ErrorCode::kInput, "GatherND with batch_dims is not folded");
  if (indices.dims.empty()) return error(ErrorCode::kInput, "GatherND with indices of rank 0");
  const auto width = indices.dims.back().constant();
  if (!width || *width < 1 || *width > static_cast<int64_t>(data.dims.size()))
    return error(ErrorCode::kInput, "GatherND with index tuples that do not fit the data's rank");
  const size_t tuple_size = static_cast<size_t>(*width), lead = indices.dims.size() - 1;
  ir::Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), data.dims.begin() + *width, data.dims.end());
  const size_t rank = dims.size();
  std::vector<Affine> inner = index_tuple(indices, rank);
  if (inner.size() == tuple_size) {
    for (size_t d = tuple_size; d < data.dims.size(); ++d)
      inner.push_back(along(lead + d - tuple_size, rank));
    return one(remap(data, std::move(dims), inner));
  }
  LT_ASSIGN(const HostValue table, densify(data));
  LT_ASSIGN(const std::vector<int64_t> places, host_constants(indices));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(table.dims));
  size_t block = 1;
  for (size_t d = tuple_size; d < extents.size(); ++d) block *= static_cast<size_t>(extents[d]);
  HostValue result;
  result.dtype = data.dtype;
  result.dims = std::move(dims);
  for (size_t t = 0; t < places.size(); t += tuple_size) {
    int64_t flat_index = 0;
    for (size_t d = 0; d < tuple_size; ++d) {
      const int64_t place = places[t + d] < 0 ? places[t + d] + extents[d] : places[t + d];
      if (place < 0 || place >= extents[d])
        return error(ErrorCode::kInput,
                     fmt::format("index {} into a dim of {}", places[t + d], extents[d]));
      flat_index = flat_index * extents[d] + place;
    }
    for (size_t i = static_cast<size_t>(flat_index) * block;
         i < static_cast<size_t>(flat_index + 1) * block; ++i) {
      if (is_float(result.dtype))
        result.reals.push_back(table.reals[i]);
      else
        result.ints.push_back(table.ints[i]);
    }
  }
  return one(std::move(result));
}

HostResult fold_scatter_nd(const HostCall& call) {
  if (word_attr(call.node, "reduction", "none") != "none")
    return error(ErrorCode::kInput, "ScatterND with a reduction is not folded");
  LT_ASSIGN(HostValue result, densify(call.in(0)));
  LT_ASSIGN(const std::vector<int64_t> places, host_constants(call.in(1)));
  LT_ASSIGN(const HostValue updates, densify(call.in(2)));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  const auto width = call.in(1).dims.empty() ? std::nullopt : call.in(1).dims.back().constant();
  if (!width || *width < 1 || *width > static_cast<int64_t>(extents.size()))
    return error(ErrorCode::kInput, "ScatterND with index tuples that do not fit the data's rank");
  size_t block = 1;
  for (size_t d = static_cast<size_t>(*width); d < extents.size(); ++d)
    block *= static_cast<size_t>(extents[d]);
  const size_t tuples = places.size() / static_cast<size_t>(*width);
  if (tuples * block != std::max(updates.ints.size(), updates.reals.size()))
    return error(ErrorCode::kInput, "ScatterND with updates of the wrong size");
  for (size_t t = 0; t < tuples; ++t) {
    int64_t flat_index = 0;
    for (size_t d = 0; d < static_cast<size_t>(*width); ++d) {
      const int64_t given = places[t * static_cast<size_t>(*width) + d];
      const int64_t place = given < 0 ? given + extents[d] : given;
      if (place < 0 || place >= extents[d])
        return error(ErrorCode::kInput,
                     fmt::format("index {} into a dim of {}", given, extents[d]));
      flat_index = flat_index * extents[d] + place;
    }
    for (size_t i = 0; i < block; ++i) {
      const size_t target = static_cast<size_t>(flat_index) * block + i;
      if (is_float(result.dtype))
        result.reals[target] = updates.reals[t * block + i];
      else
        result.ints[target] = updates.ints[t * block + i];
    }
  }
  return one(std::move(result));
}

// ---- running over
// ---------------------------------------------------------------------------------------------------

HostResult fold_cum_sum(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const std::vector<int64_t> axis_value, host_constants(call.in(1)));
  if (axis_value.size() != 1) return error(ErrorCode::kInput, "CumSum takes one axis");
  LT_ASSIGN(const size_t axis, normal_axis(axis_value[0], x.dims.size()));
  const bool exclusive = int_attr(call.node, "exclusive", 0) != 0,
             reverse = int_attr(call.node, "reverse", 0) != 0;
  if (x.form == Form::kIndexed && !is_float(x.dtype) && x.cell.integer.is_flat() && !reverse) {
    HostValue result = x;  // c, c, c, ... sums to c * (i + 1)
    const Expr step = x.cell.integer.base;
    result.cell.integer = scaled(along(axis, x.dims.size()), step);
    result.cell.integer.base = exclusive ? Expr(0) : step;
    return one(std::move(result));
  }
  LT_ASSIGN(HostValue result, densify(x));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  size_t outer = 1, inner = 1;
  const size_t extent = static_cast<size_t>(extents[axis]);
  for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(extents[d]);
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; ++i) {
      double real = 0;
      Expr integer = 0;
      for (size_t k = 0; k < extent; ++k) {
        const size_t place = (o * extent + (reverse ? extent - 1 - k : k)) * inner + i;
        if (is_float(result.dtype)) {
          const double next = round_to(result.dtype, real + result.reals[place]);
          result.reals[place] = exclusive ? real : next;
          real = next;
        } else {
          const Expr next = integer + result.ints[place];
          result.ints[place] = exclusive ? integer : next;
          integer = next;
        }
      }
    }
  }
  return one(std::move(result));
}

HostResult fold_trilu(const HostCall& call) {
  const HostValue& x = call.in(0);
  const size_t rank = x.dims.size();
  if (rank < 2) return error(ErrorCode::kInput, fmt::format("Trilu of rank {}", rank));
  const bool upper = int_attr(call.node, "upper", 1) != 0;
  Expr k = 0;
  if (call.has(1)) {
    LT_ASSIGN(const std::vector<Expr> value, host_ints(call.in(1)));
    if (value.size() == 1) k = value[0];
  }
  Affine inside =
      along(rank - 1, rank) - along(rank - 2, rank);  // column - row - k >= 0 is the upper part
  inside.base = -k;
  if (!upper) inside = scaled(inside, -1);
  if (x.form == Form::kIndexed &&
      (x.dtype == DType::kBool ||
       (is_float(x.dtype) && (x.cell.conditions.empty() || x.cell.otherwise == 0)))) {
    HostValue result = x;
    result.cell.conditions.push_back(inside);
    result.cell.otherwise = 0;
    return one(std::move(result));
  }
  LT_ASSIGN(HostValue result, densify(x));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  std::vector<int64_t> index(rank);
  const size_t count = std::max(result.ints.size(), result.reals.size());
  for (size_t i = 0; i < count; ++i, next_index(index, extents)) {
    const Expr side = at(inside, index);
    if (!side.constant()) return error(ErrorCode::kInput, needs_number(side));
    if (*side.constant() >= 0) continue;
    if (is_float(result.dtype))
      result.reals[i] = 0;
    else
      result.ints[i] = 0;
  }
  return one(std::move(result));
}

enum class Reduction : uint8_t { kSum, kProduct, kMax, kMin, kMean };

double combine(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMax:
      return std::max(a, b);
    case Reduction::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

Expr combine(Reduction reduction, const Expr& a, const Expr& b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMax:
      return sym::max(a, b);
    case Reduction::kMin:
      return sym::min(a, b);
    default:
      return a + b;
  }
}

template <Reduction reduction>
HostResult fold_reduce(const HostCall& call) {
  LT_ASSIGN(const HostValue x, densify(call.in(0)));
  const size_t rank = x.dims.size();
  LT_ASSIGN(const auto given, axes_of(call, 1, rank));
  std::vector<bool> reduced(rank, !given || given->empty());
  if ((!given || given->empty()) && int_attr(call.node, "noop_with_empty_axes", 0) != 0)
    return one(x);
  if (given)
    for (size_t d : *given) reduced[d] = true;
  if (reduction == Reduction::kMean && !is_float(x.dtype))
    return error(ErrorCode::kInput, "a mean of integers is not folded");
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(x.dims));
  ir::Dims wide = x.dims, dims;
  int64_t merged = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (reduced[d]) merged *= extents[d], wide[d] = 1;
    if (!reduced[d] || int_attr(call.node, "keepdims", 1) != 0) dims.push_back(wide[d]);
  }
  if (merged == 0) return error(ErrorCode::kInput, "a reduction over no elements is not folded");
  LT_ASSIGN(const std::vector<int64_t> kept, constant_dims(wide));
  const size_t count = static_cast<size_t>(*constant_count(wide));
  HostValue result;
  result.dtype = x.dtype;
  result.dims = std::move(dims);
  std::vector<std::optional<double>> reals(count);
  std::vector<std::optional<Expr>> ints(count);
  std::vector<int64_t> index(rank);
  for (size_t i = 0; i < std::max(x.ints.size(), x.reals.size()); ++i, next_index(index, extents)) {
    size_t place = 0;
    for (size_t d = 0; d < rank; ++d)
      place = place * static_cast<size_t>(kept[d]) + static_cast<size_t>(reduced[d] ? 0 : index[d]);
    if (is_float(x.dtype))
      reals[place] = reals[place] ? combine(reduction, *reals[place], x.reals[i]) : x.reals[i];
    else
      ints[place] = ints[place] ? combine(reduction, *ints[place], x.ints[i]) : x.ints[i];
  }
  const double scale = reduction == Reduction::kMean ? static_cast<double>(merged) : 1.0;
  for (size_t i = 0; i < count; ++i) {
    if (is_float(x.dtype))
      result.reals.push_back(round_to(x.dtype, *reals[i] / scale));
    else
      result.ints.push_back(*ints[i]);
  }
  return one(std::move(result));
}

constexpr HostRow kRows[] = {
    {"Identity", 1, fold_identity},
    {"Squeeze", 1, fold_squeeze},
    {"Unsqueeze", 1, fold_unsqueeze},
    {"Reshape", 2, fold_reshape},
    {"Flatten", 1, fold_flatten},
    {"Transpose", 1, fold_transpose},
    {"Slice", 1, fold_slice},
    {"Split", 1, fold_split},
    {"Expand", 2, fold_expand},
    {"Tile", 2, fold_tile},
    {"ConstantOfShape", 1, fold_constant_of_shape},
    {"Range", 3, fold_range},
    {"Concat", 1, fold_concat},
    {"Gather", 2, fold_gather},
    {"GatherND", 2, fold_gather_nd},
    {"ScatterND", 3, fold_scatter_nd},
    {"CumSum", 2, fold_cum_sum},
    {"Trilu", 1, fold_trilu},
    {"ReduceSum", 1, fold_reduce<Reduction::kSum>},
    {"ReduceProd", 1, fold_reduce<Reduction::kProduct>},
    {"ReduceMax", 1, fold_reduce<Reduction::kMax>},
    {"ReduceMin", 1, fold_reduce<Reduction::kMin>},
    {"ReduceMean", 1, fold_reduce<Reduction::kMean>},
};

}  // namespace

std::span<const HostRow> host_move_rows() {
  return kRows;
}

}  // namespace lowtide::io
