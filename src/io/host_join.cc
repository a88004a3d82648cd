// Ops that join values or look elements up, on host values. Joined formulas stay one formula when
// one of them, carried on over the places of the others, gives what they give there (a step of -1
// before a Range from 0 is a Range from -1); a lookup at places that are a formula composes the two
// formulas.
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
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return result;
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
    if (input->dims.size() != first.dims.size())
      return error(ErrorCode::kInput, "Concat of values of different ranks");
    for (size_t d = 0; d < first.dims.size(); ++d)
      if (d != axis && first.dims[d].is_constant() && input->dims[d].is_constant() &&
          !(first.dims[d] == input->dims[d]))
        return error(ErrorCode::kInput,
                     fmt::format("Concat along axis {} of dims {} and {} in axis {}", axis,
                                 sym::print(first.dims[d]), sym::print(input->dims[d]), d));
    result.dims[axis] = result.dims[axis] + input->dims[axis];
    formula |= input->form != Form::kDense;
  }
  if (formula || is_large(result.dims))
    if (auto joined = joined_formula(call, result, axis)) return single(std::move(*joined));
  auto dense = join_dense(call, result, axis);
  if (dense || !formula) return single(std::move(dense));
  return single(host_unknown(result.dtype, result.dims, dense.error().message));
}

// ---- looking up ----

// An index into a dim, over the indices of `dims`, counted from the start: negative ones count from
// the end. none where some count from the start and some from the end, or lie outside: the elements
// then tell. What symbols leave open is taken to be in range, as everywhere.
std::optional<Affine> place_in(Affine index, const ir::Dims& dims, const Expr& extent) {
  const auto span = span_of(index, dims);
  if (!span) {
    if (const auto number = index.constant(); number && *number < 0)
      index.base = index.base + extent;
    return index;
  }
  if (span->least < 0 && span->greatest >= 0) return std::nullopt;
  if (span->least < 0) index.base = index.base + extent;
  const auto place = span_of(index, dims);
  const auto room = extent.constant();
  if (place && (place->least < 0 || (room && place->greatest >= *room))) return std::nullopt;
  return index;
}

// data[.., indices, ..] where indices are a formula: a remap whose index along the axis is that
// formula. none: the formula does not say where.
std::optional<HostResult> gather_formula(const HostValue& data, const HostValue& indices,
                                         size_t axis) {
  const size_t extra = indices.dims.size();
  const size_t rank = data.dims.size() + extra - 1;
  ir::Dims dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              data.dims.end());
  std::vector<Affine> index_map, inner;
  for (size_t d = 0; d < extra; ++d) index_map.push_back(along(axis + d, rank));
  for (size_t d = 0; d < data.dims.size(); ++d)
    inner.push_back(d == axis ? flat(0, rank) : along(d < axis ? d : d + extra - 1, rank));
  const auto place =
      place_in(compose(indices.cell.integer, index_map, rank), dims, data.dims[axis]);
  if (!place) return std::nullopt;
  inner[axis] = *place;
  return single(remap(data, std::move(dims), inner));
}

HostResult fold_gather(const HostCall& call) {
  const HostValue& data = call.in(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), data.dims.size()));
  if (data.form == Form::kUnknown) return error(ErrorCode::kInput, data.reason);
  if (const auto indices = as_indexed(call.in(1)))
    if (auto gathered = gather_formula(data, *indices, axis)) return std::move(*gathered);
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
  return single(std::move(result));
}

// data at the places that indices give along one axis, everything else staying where it is.
HostResult fold_gather_elements(const HostCall& call) {
  const HostValue& data = call.in(0);
  const size_t rank = data.dims.size();
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node, "axis", 0), rank));
  if (call.in(1).dims.size() != rank)
    return error(ErrorCode::kInput, fmt::format("indices of rank {} for data of rank {}",
                                                call.in(1).dims.size(), rank));
  std::vector<Affine> inner;
  for (size_t d = 0; d < rank; ++d) inner.push_back(along(d, rank));
  const auto indices = as_indexed(call.in(1));
  if (const auto place = indices ? place_in(indices->cell.integer, call.in(1).dims, data.dims[axis])
                                 : std::nullopt) {
    inner[axis] = *place;
    return single(remap(data, call.in(1).dims, inner));
  }
  LT_ASSIGN(const std::vector<int64_t> places, host_constants(call.in(1)));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(call.in(1).dims));
  LT_ASSIGN(const std::vector<int64_t> from, constant_dims(data.dims));
  LT_ASSIGN(const HostValue table, densify(data));
  HostValue result;
  result.dtype = data.dtype;
  result.dims = call.in(1).dims;
  std::vector<int64_t> index(rank);
  for (size_t i = 0; i < places.size(); ++i, next_index(index, extents)) {
    int64_t source = 0;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t place = d != axis ? index[d] : places[i] < 0 ? places[i] + from[d] : places[i];
      if (place < 0 || place >= from[d])
        return error(ErrorCode::kInput, fmt::format("index {} into a dim of {}", place, from[d]));
      source = source * from[d] + place;
    }
    if (is_float(result.dtype))
      result.reals.push_back(table.reals[static_cast<size_t>(source)]);
    else
      result.ints.push_back(table.ints[static_cast<size_t>(source)]);
  }
  return single(std::move(result));
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
  bool formula = inner.size() == tuple_size;
  for (size_t d = 0; formula && d < tuple_size; ++d) {
    const auto place = place_in(inner[d], dims, data.dims[d]);
    formula = place.has_value();
    if (place) inner[d] = *place;
  }
  if (formula) {
    for (size_t d = tuple_size; d < data.dims.size(); ++d)
      inner.push_back(along(lead + d - tuple_size, rank));
    return single(remap(data, std::move(dims), inner));
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
  return single(std::move(result));
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
  return single(std::move(result));
}

// A new dim in which one place has the second of two values and all others the first.
HostResult fold_one_hot(const HostCall& call) {
  LT_ASSIGN(const std::vector<double> places, host_reals(call.in(0)));
  LT_ASSIGN(const std::vector<double> depths, host_reals(call.in(1)));
  LT_ASSIGN(const HostValue values, densify(call.in(2)));
  if (depths.size() != 1 || !(depths[0] >= 1 && depths[0] <= kMaxHostElements) ||
      std::max(values.ints.size(), values.reals.size()) != 2)
    return error(ErrorCode::kInput, "OneHot takes one depth of at least 1 and two values");
  const auto depth = static_cast<int64_t>(depths[0]);
  HostValue result;
  result.dtype = values.dtype;
  result.dims = call.in(0).dims;
  LT_ASSIGN(const size_t axis,
            normal_axis(int_attr(call.node, "axis", -1), result.dims.size() + 1));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  result.dims.insert(result.dims.begin() + static_cast<std::ptrdiff_t>(axis), Expr(depth));
  LT_RETURN_IF_ERROR(constant_count(result.dims).map([](int64_t) {}));
  size_t inner = 1;
  for (size_t d = axis; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  for (size_t first = 0; first < places.size(); first += inner)
    for (int64_t row = 0; row < depth; ++row)
      for (size_t i = first; i < first + inner; ++i) {
        const double place = places[i] < 0 ? places[i] + static_cast<double>(depth) : places[i];
        const size_t chosen = place == static_cast<double>(row) ? 1 : 0;
        if (is_float(result.dtype))
          result.reals.push_back(values.reals[chosen]);
        else
          result.ints.push_back(values.ints[chosen]);
      }
  return single(std::move(result));
}

constexpr HostRow kHostJoinRows[] = {
    {"Concat", "T..", fold_concat},
    {"Gather", "* i", fold_gather},
    {"GatherElements", "* i", fold_gather_elements},
    {"GatherND", "* i", fold_gather_nd},
    {"ScatterND", "T i T", fold_scatter_nd},
    {"OneHot", "n n *", fold_one_hot},
};

}  // namespace

std::span<const HostRow> host_join_rows() {
  return kHostJoinRows;
}

}  // namespace lowtide::io
