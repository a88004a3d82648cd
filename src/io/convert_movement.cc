// Ops that move data. Squeeze, Unsqueeze and Flatten are views (Reshape); a Reshape to the dims
// that are there already is the value itself; Split is Slices; a Gather of consecutive rows is a
// Slice; a Transpose waits for its readers (convert.h).
#include <fmt/format.h>

#include <algorithm>

#include "io/convert.h"
#include "io/convert_indexing.h"
#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

Status reshape_to(NodeCall& call, ir::Dims dims) {
  if (dims == call.dims(0)) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Reshape", {x}, {{"shape", list(std::move(dims))}});
}

Status reshape(NodeCall& call) {
  LT_ASSIGN(const std::vector<Expr> target, call.sizes(1));
  LT_ASSIGN(ir::Dims dims,
            reshape_dims(call.dims(0), target, int_attr(call.node(), "allowzero", 0) != 0));
  return reshape_to(call, std::move(dims));
}

Result<std::optional<std::vector<int64_t>>> axes_of(NodeCall& call) {
  if (!call.has(1)) return ints_attr(call.node(), "axes");
  LT_ASSIGN(std::vector<int64_t> axes, call.integers(1));
  return std::optional(std::move(axes));
}

Status squeeze(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(const auto axes, axes_of(call));
  std::vector<size_t> normal;
  if (axes) {
    LT_ASSIGN(normal, normal_axes(*axes, from.size()));
  }
  ir::Dims dims;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool named = std::find(normal.begin(), normal.end(), d) != normal.end();
    if (named && from[d].is_constant() && !(from[d] == Expr(1)))
      return error(ErrorCode::kInput,
                   fmt::format("dim {} has extent {}, not 1", d, sym::print(from[d])));
    if (!named && (axes || !(from[d] == Expr(1)))) dims.push_back(from[d]);
  }
  return reshape_to(call, std::move(dims));
}

Status unsqueeze(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(const auto axes, axes_of(call));
  if (!axes) return error(ErrorCode::kInput, "has no axes");
  const size_t rank = from.size() + axes->size();
  LT_ASSIGN(const std::vector<size_t> normal, normal_axes(*axes, rank));
  ir::Dims dims;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d)
    dims.push_back(std::find(normal.begin(), normal.end(), d) != normal.end() ? Expr(1)
                                                                              : from[next++]);
  return reshape_to(call, std::move(dims));
}

Status flatten(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  const int64_t rank = static_cast<int64_t>(from.size());
  const int64_t axis = int_attr(call.node(), "axis", 1);
  const int64_t cut = axis < 0 ? axis + rank : axis;
  if (cut < 0 || cut > rank)
    return error(ErrorCode::kInput, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  const std::span<const Expr> all(from);
  return reshape_to(call, {product(all.first(static_cast<size_t>(cut))),
                           product(all.subspan(static_cast<size_t>(cut)))});
}

Status transpose(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  std::vector<int64_t> given;
  for (size_t d = rank; d-- > 0;) given.push_back(static_cast<int64_t>(d));
  given = ints_attr(call.node(), "perm").value_or(given);
  if (given.size() != rank)
    return error(ErrorCode::kInput, fmt::format("perm of {} dims for rank {}", given.size(), rank));
  LT_ASSIGN(const std::vector<size_t> perm, normal_axes(given, rank));
  if (std::is_sorted(perm.begin(), perm.end())) {
    call.pass(0);
    return {};
  }
  if (const auto inner = call.pending_transpose(0)) {  // both at once, or none
    std::vector<size_t> both;
    for (size_t d : perm) both.push_back(inner->second[d]);
    if (std::is_sorted(both.begin(), both.end()))
      call.set(0, inner->first);
    else
      call.set_transpose(inner->first, both);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  call.set_transpose(x, perm);
  return {};
}

ir::Attrs slice_attrs(const Cut& cut) {
  return {{"starts", list(cut.starts)}, {"sizes", list(cut.sizes)}, {"steps", list(cut.steps)}};
}

Result<Cut> cut_of(NodeCall& call) {
  std::vector<Expr> bounds[2];
  std::vector<int64_t> axes, steps;
  const char* names[] = {"starts", "ends"};
  for (size_t i = 0; i < 2; ++i) {
    if (call.inputs() > 1) {
      LT_ASSIGN(bounds[i], call.sizes(i + 1));
    } else if (const auto given = ints_attr(call.node(), names[i])) {
      bounds[i].assign(given->begin(), given->end());
    }
  }
  if (call.has(3)) {
    LT_ASSIGN(axes, call.integers(3));
  } else {
    axes = ints_attr(call.node(), "axes").value_or(axes);
  }
  if (call.has(4)) {
    LT_ASSIGN(steps, call.integers(4));
  }
  LT_ASSIGN(const std::vector<size_t> normal, normal_axes(axes, call.dims(0).size()));
  return slice_cut(call.dims(0), bounds[0], bounds[1], normal, steps);
}

// The places of a dim in falling order, for a Gather.
Result<ValueId> reversed_places(NodeCall& call, int64_t extent) {
  HostValue places = host_vector({});
  for (int64_t i = extent; i-- > 0;) places.ints.emplace_back(i);
  places.dims = {Expr(extent)};
  return call.inline_constant(places, fmt::format("reversed_{}", extent));
}

// The same elements in rising order are a Slice with the steps turned; then rows are taken from the
// last to the first.
Status slice_backwards(NodeCall& call, Cut cut) {
  std::vector<size_t> turned;
  for (size_t d = 0; d < cut.steps.size(); ++d) {
    if (cut.steps[d] > 0) continue;
    const auto size = cut.sizes[d].constant();
    if (!size) return error(ErrorCode::kInput, needs_number(cut.sizes[d]));
    cut.starts[d] = *size == 0 ? Expr(0) : cut.starts[d] + Expr((*size - 1) * cut.steps[d]);
    cut.steps[d] = -cut.steps[d];
    if (*size > 1) turned.push_back(d);
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  if (turned.empty()) return call.result("Slice", {x}, slice_attrs(cut));
  LT_ASSIGN(ValueId rising, call.emit("Slice", {x}, slice_attrs(cut)));
  for (size_t i = 0; i < turned.size(); ++i) {
    LT_ASSIGN(const ValueId places, reversed_places(call, *cut.sizes[turned[i]].constant()));
    const ir::Attrs attrs = {{"axis", static_cast<int64_t>(turned[i])}};
    if (i + 1 == turned.size()) return call.result("Gather", {rising, places}, attrs);
    LT_ASSIGN(rising, call.emit("Gather", {rising, places}, attrs));
  }
  return {};
}

Status slice(NodeCall& call) {
  LT_ASSIGN(const Cut cut, cut_of(call));
  if (cut.sizes == call.dims(0) &&
      std::all_of(cut.steps.begin(), cut.steps.end(), [](int64_t s) { return s == 1; })) {
    call.pass(0);
    return {};
  }
  if (std::any_of(cut.steps.begin(), cut.steps.end(), [](int64_t s) { return s < 0; }))
    return slice_backwards(call, cut);
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Slice", {x}, slice_attrs(cut));
}

// The sizes of Split's parts: an input, an attribute, or equal ones (the last may be smaller).
Result<std::vector<Expr>> part_sizes(NodeCall& call, const Expr& extent) {
  const size_t parts = call.node().outputs.size();
  if (call.has(1)) return call.sizes(1);
  if (const auto given = ints_attr(call.node(), "split"))
    return std::vector<Expr>(given->begin(), given->end());
  const Expr part = sym::ceildiv(extent, static_cast<int64_t>(parts));
  std::vector<Expr> sizes(parts, part);
  sizes.back() = extent - part * Expr(static_cast<int64_t>(parts) - 1);
  return sizes;
}

Status split(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), from.size()));
  LT_ASSIGN(const std::vector<Expr> sizes, part_sizes(call, from[axis]));
  if (sizes.size() != call.node().outputs.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} sizes for {} parts", sizes.size(), call.node().outputs.size()));
  LT_ASSIGN(const ValueId x, call.value(0));
  Cut cut{ir::Dims(from.size()), from, std::vector<int64_t>(from.size(), 1)};
  for (size_t i = 0; i < sizes.size(); ++i) {
    cut.sizes[axis] = sizes[i];
    if (call.wants(i))
      LT_RETURN_IF_ERROR(call.result_at(i, "Slice", {x}, slice_attrs(cut)).map([](ValueId) {}));
    cut.starts[axis] = cut.starts[axis] + sizes[i];
  }
  return {};
}

Status concat(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), call.dims(0).size()));
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < call.inputs(); ++i) {
    LT_ASSIGN(const ValueId x, call.value(i));
    inputs.push_back(x);
  }
  if (inputs.size() == 1) {
    call.pass(0);
    return {};
  }
  return call.result("Concat", std::move(inputs), {{"axis", static_cast<int64_t>(axis)}});
}

Status expand(NodeCall& call) {
  LT_ASSIGN(const std::vector<Expr> target, call.sizes(1));
  LT_ASSIGN(ir::Dims dims, broadcast(call.dims(0), target));
  if (dims == call.dims(0)) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Expand", {x}, {{"shape", list(std::move(dims))}});
}

// [a b] repeated (r s) is [1 a 1 b] expanded to [r a s b], flattened.
Status tile(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(const std::vector<Expr> repeats, call.sizes(1));
  if (repeats.size() != from.size())
    return error(ErrorCode::kInput,
                 fmt::format("{} repeats for rank {}", repeats.size(), from.size()));
  ir::Dims narrow, wide, dims;
  if (std::all_of(repeats.begin(), repeats.end(), [](const Expr& r) { return r == Expr(1); })) {
    call.pass(0);
    return {};
  }
  for (size_t d = 0; d < from.size(); ++d) {
    narrow.insert(narrow.end(), {Expr(1), from[d]});
    wide.insert(wide.end(), {repeats[d], from[d]});
    dims.push_back(from[d] * repeats[d]);
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId apart, call.emit("Reshape", {x}, {{"shape", list(std::move(narrow))}}));
  LT_ASSIGN(const ValueId copies, call.emit("Expand", {apart}, {{"shape", list(std::move(wide))}}));
  return call.result("Reshape", {copies}, {{"shape", list(std::move(dims))}});
}

// Whether indices are c, c+1, c+2, ... along one dim and extents of 1 elsewhere: then rows are a
// slice. Where they start.
std::optional<Expr> consecutive(const HostValue& indices) {
  const auto indexed = as_indexed(indices);
  if (!indexed || is_float(indices.dtype)) return std::nullopt;
  for (size_t d = 0; d < indices.dims.size(); ++d) {
    if (indices.dims[d] == Expr(1)) continue;
    if (!(indexed->cell.integer.slope[d] == Expr(1))) return std::nullopt;
  }
  size_t varying = 0;
  for (const Expr& dim : indices.dims) varying += dim == Expr(1) ? 0 : 1;
  if (varying > 1) return std::nullopt;
  const auto start = indexed->cell.integer.base.constant();
  return start && *start < 0 ? std::nullopt : std::optional(indexed->cell.integer.base);
}

Status gather_slice(NodeCall& call, size_t axis, const Expr& start) {
  const ir::Dims from = call.dims(0), picked = call.dims(1);
  Cut cut{ir::Dims(from.size()), from, std::vector<int64_t>(from.size(), 1)};
  cut.starts[axis] = start;
  cut.sizes[axis] = product(picked);
  ir::Dims dims(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), picked.begin(), picked.end());
  dims.insert(dims.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  LT_ASSIGN(const ValueId x, call.value(0));
  if (dims == cut.sizes) return call.result("Slice", {x}, slice_attrs(cut));
  ValueId rows = x;
  if (!(cut.sizes == from)) {
    LT_ASSIGN(rows, call.emit("Slice", {x}, slice_attrs(cut)));
  }
  return call.result("Reshape", {rows}, {{"shape", list(std::move(dims))}});
}

// One row for all places: a slice, repeated.
Status gather_row(NodeCall& call, size_t axis, const Expr& row) {
  const ir::Dims from = call.dims(0), picked = call.dims(1);
  Cut cut{ir::Dims(from.size()), from, std::vector<int64_t>(from.size(), 1)};
  cut.starts[axis] = row;
  cut.sizes[axis] = 1;
  ir::Dims narrow(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis)), dims = narrow;
  narrow.insert(narrow.end(), picked.size(), Expr(1));
  dims.insert(dims.end(), picked.begin(), picked.end());
  for (ir::Dims* shape : {&narrow, &dims})
    shape->insert(shape->end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId one, call.emit("Slice", {x}, slice_attrs(cut)));
  LT_ASSIGN(const ValueId view, call.emit("Reshape", {one}, {{"shape", list(std::move(narrow))}}));
  return call.result("Expand", {view}, {{"shape", list(std::move(dims))}});
}

Status gather(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), call.dims(0).size()));
  LT_RETURN_IF_ERROR(check_places(call, 1, call.dims(0)[axis]));
  if (const HostValue* indices = call.host(1))
    if (const auto start = consecutive(*indices)) return gather_slice(call, axis, *start);
  if (const HostValue* indices = call.host(1)) {
    const auto formula = as_indexed(*indices);
    if (formula && formula->cell.integer.constant().value_or(-1) >= 0)
      return gather_row(call, axis, formula->cell.integer.base);
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId indices, call.value(1));
  return call.result("Gather", {x, indices}, {{"axis", static_cast<int64_t>(axis)}});
}

// Pads are an attribute before opset 11; axes may be named since 18.
Status pad(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  std::vector<Expr> pads;
  if (call.has(1)) {
    LT_ASSIGN(pads, call.sizes(1));
  } else if (const auto given = ints_attr(call.node(), "pads")) {
    pads.assign(given->begin(), given->end());
  }
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (call.has(3)) {
    LT_ASSIGN(axes, call.integers(3));
  }
  LT_ASSIGN(const std::vector<size_t> normal, normal_axes(axes, rank));
  if (pads.size() != 2 * normal.size())
    return error(ErrorCode::kInput, fmt::format("{} pads for {} axes", pads.size(), normal.size()));
  std::vector<Expr> begins(rank), ends(rank);
  for (size_t i = 0; i < normal.size(); ++i) {
    begins[normal[i]] = pads[i];
    ends[normal[i]] = pads[i + normal.size()];
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  const std::string mode = word_attr(call.node(), "mode", "constant");
  if (mode != "constant")
    return call.result("PadRepeat", {x},
                       {{"begins", list(std::move(begins))},
                        {"ends", list(std::move(ends))},
                        {"mode", word(mode)}});
  ir::AttrValue value = real_attr(call.node(), "value", 0);
  if (call.has(2)) {
    auto known = call.number(2);
    if (!known) return error(ErrorCode::kInput, "the value of a Pad must be a known number");
    value = std::move(*known);
  }
  return call.result(
      "Pad", {x},
      {{"begins", list(std::move(begins))}, {"ends", list(std::move(ends))}, {"value", value}});
}

Status trilu(NodeCall& call) {
  std::vector<int64_t> k = {0};
  if (call.has(1)) {
    LT_ASSIGN(k, call.integers(1));
  }
  if (k.size() != 1) return error(ErrorCode::kInput, "k must be one number");
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Trilu", {x},
                     {{"upper", int64_t{int_attr(call.node(), "upper", 1) != 0}}, {"k", k[0]}});
}

// Channels and blocks of pixels exchanged: a view, a transposition, a view.
Status depth_to_space(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  const Expr block = int_attr(call.node(), "blocksize", 0);
  if (from.size() != 4 || !(*block.constant() > 0))
    return error(ErrorCode::kInput, "needs rank 4 and a blocksize");
  const Expr channels = sym::floordiv(from[1], block * block);
  const bool columns_first = word_attr(call.node(), "mode", "DCR") == "CRD";
  const std::vector<Expr> apart =
      columns_first ? std::vector<Expr>{from[0], channels, block, block, from[2], from[3]}
                    : std::vector<Expr>{from[0], block, block, channels, from[2], from[3]};
  const std::vector<int64_t> perm = columns_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3}
                                                  : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId blocks, call.emit("Reshape", {x}, {{"shape", list(apart)}}));
  LT_ASSIGN(const ValueId moved, call.emit("Transpose", {blocks}, {{"perm", list(perm)}}));
  return call.result(
      "Reshape", {moved},
      {{"shape", list(std::vector<Expr>{from[0], channels, from[2] * block, from[3] * block})}});
}

Status space_to_depth(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  const Expr block = int_attr(call.node(), "blocksize", 0);
  if (from.size() != 4 || !(*block.constant() > 0))
    return error(ErrorCode::kInput, "needs rank 4 and a blocksize");
  const Expr rows = sym::floordiv(from[2], block), columns = sym::floordiv(from[3], block);
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId blocks,
            call.emit("Reshape", {x},
                      {{"shape",
                        list(std::vector<Expr>{from[0], from[1], rows, block, columns, block})}}));
  LT_ASSIGN(
      const ValueId moved,
      call.emit("Transpose", {blocks}, {{"perm", list(std::vector<int64_t>{0, 3, 5, 1, 2, 4})}}));
  return call.result(
      "Reshape", {moved},
      {{"shape", list(std::vector<Expr>{from[0], from[1] * block * block, rows, columns})}});
}

constexpr ConvertRow kMovementRows[] = {
    {"Reshape", 2, reshape},
    {"Squeeze", 1, squeeze},
    {"Unsqueeze", 1, unsqueeze},
    {"Flatten", 1, flatten},
    {"Transpose", 1, transpose},
    {"Slice", 1, slice},
    {"Split", 1, split},
    {"Concat", 1, concat},
    {"Expand", 2, expand},
    {"Tile", 2, tile},
    {"Gather", 2, gather},
    {"Pad", 1, pad},
    {"Trilu", 1, trilu},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
};

}  // namespace

std::span<const ConvertRow> movement_conversions() {
  return kMovementRows;
}

}  // namespace lowtide::io
