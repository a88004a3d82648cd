// ATen ops that move elements or show them in another shape. What PyTorch makes a view of is a view
// here wherever the graph can have one (ops/strided_views.h).
#include <algorithm>
#include <limits>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

using sym::Expr;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

void same(AtenCall& call) {
  call.result("Identity", {call.tensor("self")});
}

void detached(AtenCall& call) {
  const std::string x = call.tensor("self");
  const bool cut = call.training() && call.is_trained("self");
  call.result("Identity", {cut ? call.without_gradient(x, call.type("self")) : x});
}

// As `to`, `_to_copy` and the like: the type is that of the output.
void to_type(AtenCall& call) {
  call.result_as(call.tensor("self"), call.type("self"));
}

void reshape(AtenCall& call) {
  const std::string_view name = call.has("shape") ? "shape" : "size";
  call.result("Reshape", {call.tensor("self"), call.size_list(call.sizes(name))},
              {{"allowzero", int64_t{1}}});
}

// To the dims of the result, which are told.
void as_told(AtenCall& call) {
  call.result("Reshape", {call.tensor("self"), call.size_list(call.out().dims)},
              {{"allowzero", int64_t{1}}});
}

void flatten(AtenCall& call) {
  const size_t rank = call.rank("self");
  const int64_t begin = call.axis("start_dim", 0, rank), end = call.axis("end_dim", -1, rank);
  if (!call.mistake().empty() || begin > end) return call.fail("start_dim is behind end_dim");
  const auto& dims = call.meta("self").dims;
  std::vector<Expr> shape(dims.begin(), dims.begin() + begin);
  shape.emplace_back(-1);
  if (rank > 0) shape.insert(shape.end(), dims.begin() + end + 1, dims.end());
  call.result("Reshape", {call.tensor("self"), call.size_list(shape)});
}

void permute(AtenCall& call) {
  const auto rank = static_cast<int64_t>(call.rank("self"));
  std::vector<int64_t> perm = call.integers("dims");
  for (int64_t& axis : perm) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) return call.fail("dims are no permutation");
  }
  call.result("Transpose", {call.tensor("self")}, {{"perm", perm}});
}

// Axes to other places; those that stay keep their order.
void move_axes(AtenCall& call) {
  const auto rank = static_cast<int64_t>(call.rank("self"));
  const std::vector<int64_t> source = call.integers("source"),
                             target = call.integers("destination");
  std::vector<int64_t> perm(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(perm.size(), false);
  for (size_t i = 0; i < source.size() && source.size() == target.size(); ++i) {
    const int64_t from = source[i] + (source[i] < 0 ? rank : 0);
    const int64_t to = target[i] + (target[i] < 0 ? rank : 0);
    if (from < 0 || from >= rank || to < 0 || to >= rank) return call.fail("an axis is none");
    perm[static_cast<size_t>(to)] = from;
    moved[static_cast<size_t>(from)] = true;
  }
  size_t next = 0;
  for (int64_t& axis : perm) {
    if (axis >= 0) continue;
    while (next < moved.size() && moved[next]) ++next;
    if (next == moved.size()) return call.fail("axes are moved twice");
    axis = static_cast<int64_t>(next++);
  }
  call.result("Transpose", {call.tensor("self")}, {{"perm", perm}});
}

void swap(AtenCall& call) {
  const size_t rank = call.rank("self");
  const bool matrix = call.node().target == "aten.t.default";
  const std::string_view first = call.has("axis0") ? "axis0" : "dim0";
  const std::string_view second = call.has("axis1") ? "axis1" : "dim1";
  const int64_t a = matrix ? 0 : call.axis(first, 0, rank);
  const int64_t b = matrix ? (rank < 2 ? 0 : 1) : call.axis(second, 1, rank);
  if (a == b || rank < 2) return call.result("Identity", {call.tensor("self")});
  std::vector<int64_t> perm(rank);
  for (size_t d = 0; d < rank; ++d) perm[d] = static_cast<int64_t>(d);
  std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  call.result("Transpose", {call.tensor("self")}, {{"perm", perm}});
}

// The last two dims, or all of them, the other way round.
void reverse_dims(AtenCall& call) {
  const size_t rank = call.rank("self");
  std::vector<int64_t> perm(rank);
  for (size_t d = 0; d < rank; ++d) perm[d] = static_cast<int64_t>(d);
  if (call.row().onnx == "last" && rank >= 2)
    std::swap(perm[rank - 2], perm[rank - 1]);
  else
    std::reverse(perm.begin(), perm.end());
  call.result("Transpose", {call.tensor("self")}, {{"perm", perm}});
}

void unsqueeze(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self") + 1);
  call.result("Unsqueeze", {call.tensor("self"), call.integer_list({axis})});
}

void expand(AtenCall& call) {
  std::vector<Expr> shape =
      call.has("size") ? call.sizes("size") : call.out().dims;  // or expand_as
  for (Expr& size : shape)
    if (size == Expr(-1)) size = 1;
  call.result("Expand", {call.tensor("self"), call.size_list(shape)});
}

// Several tensors, each as large as all of them together.
void broadcast_all(AtenCall& call) {
  const std::vector<std::string> all = call.tensors("tensors");
  for (size_t i = 0; i < std::min(all.size(), call.outputs()); ++i)
    call.result_at(i, "Expand", {all[i], call.size_list(call.out(i).dims)});
}

void repeat(AtenCall& call) {
  const std::string_view name = call.has("repeats") ? "repeats" : "dims";
  std::vector<Expr> times = call.sizes(name);
  std::string x = call.tensor("self");
  const size_t rank = call.rank("self");
  if (times.size() < rank) times.insert(times.begin(), rank - times.size(), Expr(1));
  if (times.size() > rank) {
    std::vector<int64_t> axes;
    for (size_t d = 0; d < times.size() - rank; ++d) axes.push_back(static_cast<int64_t>(d));
    x = call.emit("Unsqueeze", {x, call.integer_list(axes)});
  }
  call.result("Tile", {x, call.size_list(times)});
}

// Each element so many times, neighbours of itself.
void repeat_each(AtenCall& call) {
  if (!call.has("dim")) return call.fail("no dim is given");
  const size_t rank = call.rank("self");
  const int64_t axis = call.axis("dim", 0, rank), times = call.integer("repeats", 1);
  const auto& dims = call.meta("self").dims;
  const std::string apart =
      call.emit("Unsqueeze", {call.tensor("self"), call.integer_list({axis + 1})});
  std::vector<Expr> shape(dims.begin(), dims.end());
  if (!call.mistake().empty() || rank == 0) return call.fail("a tensor without dims");
  shape.insert(shape.begin() + axis + 1, Expr(times));
  const std::string copies = call.emit("Expand", {apart, call.size_list(shape)});
  call.result("Reshape", {copies, call.size_list(call.out().dims)});
}

void slice(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const std::vector<Expr> start =
      call.has("start") ? call.sizes("start") : std::vector<Expr>{Expr(0)};
  const std::vector<Expr> end = call.has("end") ? call.sizes("end") : std::vector<Expr>{Expr(kEnd)};
  call.result("Slice", {call.tensor("self"), call.size_list(start), call.size_list(end),
                        call.integer_list({axis}), call.integer_list({call.integer("step", 1)})});
}

// From `start` so many.
void narrow(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const std::vector<Expr> start = call.sizes("start"), length = call.sizes("length");
  if (start.size() != 1 || length.size() != 1) return call.fail("start or length is missing");
  call.result("Slice", {call.tensor("self"), call.size_list(start),
                        call.size_list({start[0] + length[0]}), call.integer_list({axis})});
}

// One place of a dim, which goes.
void select(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const std::vector<Expr> at = call.sizes("index");
  if (at.size() != 1) return call.fail("index is no integer");
  const bool last = at[0] == Expr(-1);
  const std::string cut =
      call.emit("Slice", {call.tensor("self"), call.size_list(at),
                          last ? call.integer_list({kEnd}) : call.size_list({at[0] + 1}),
                          call.integer_list({axis})});
  call.result("Squeeze", {cut, call.integer_list({axis})});
}

void concat(AtenCall& call) {
  std::vector<std::string> pieces = call.tensors("tensors");
  const int64_t axis = call.axis("dim", 0, call.out().dims.size());
  call.result("Concat", std::move(pieces), {{"axis", axis}});
}

void stack(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.out().dims.size());
  std::vector<std::string> pieces = call.tensors("tensors");
  const std::string axes = call.integer_list({axis});
  for (std::string& piece : pieces) piece = call.emit("Unsqueeze", {piece, axes});
  call.result("Concat", std::move(pieces), {{"axis", axis}});
}

// Into pieces whose sizes are told.
void split(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  if (!call.mistake().empty()) return;
  std::vector<Expr> sizes;
  for (size_t i = 0; i < call.outputs(); ++i) {
    const auto& dims = call.out(i).dims;
    if (dims.size() <= static_cast<size_t>(axis)) return call.fail("a piece of another rank");
    sizes.push_back(dims[static_cast<size_t>(axis)]);
  }
  call.result("Split", {call.tensor("self"), call.size_list(sizes)}, {{"axis", axis}},
              call.outputs());
}

void unbind(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const std::string x = call.tensor("self"), axes = call.integer_list({axis});
  for (size_t i = 0; i < call.outputs(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const std::string cut =
        call.emit("Slice", {x, call.integer_list({place}), call.integer_list({place + 1}), axes});
    call.result_at(i, "Squeeze", {cut, axes});
  }
}

// PyTorch counts dims from the last one: begin and end of it, then of the one before.
void pad(AtenCall& call) {
  const std::string mode = call.word("mode", "constant");
  const std::vector<int64_t> given = call.integers("pad");
  const size_t rank = call.rank("self");
  if (given.size() % 2 != 0 || given.size() / 2 > rank) return call.fail("pad does not fit");
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < given.size() / 2; ++i) {
    pads[rank - 1 - i] = given[2 * i];
    pads[2 * rank - 1 - i] = given[2 * i + 1];
  }
  const std::string onnx_mode = mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode;
  std::vector<std::string> inputs = {call.tensor("self"), call.integer_list(pads)};
  if (mode == "constant") inputs.push_back(call.number(call.real("value", 0), call.out_type()));
  call.result("Pad", std::move(inputs), {{"mode", onnx_mode}});
}

void triangle(AtenCall& call) {
  const int64_t upper = call.row().onnx == "upper" ? 1 : 0;
  call.result("Trilu", {call.tensor("self"), call.size_number(call.integer("diagonal", 0))},
              {{"upper", upper}});
}

void flip(AtenCall& call) {
  const size_t rank = call.rank("self");
  std::vector<int64_t> axes = call.integers("dims");
  for (int64_t& axis : axes) axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
  const std::vector<int64_t> start(axes.size(), -1),
      end(axes.size(), std::numeric_limits<int64_t>::min()), step(axes.size(), -1);
  call.result("Slice", {call.tensor("self"), call.integer_list(start), call.integer_list(end),
                        call.integer_list(axes), call.integer_list(step)});
}

// Each dim turned by so many places: the end in front.
void roll(AtenCall& call) {
  const std::vector<int64_t> shifts = call.integers("shifts"), dims = call.integers("dims");
  if (shifts.size() != dims.size() || dims.empty()) return call.fail("no dims are given");
  const auto rank = static_cast<int64_t>(call.rank("self"));
  std::string x = call.tensor("self");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t axis = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (axis < 0 || axis >= rank) return call.fail("a dim that is not there");
    if (shifts[i] == 0) continue;
    const std::string axes = call.integer_list({axis}), cut = call.integer_list({-shifts[i]});
    const std::string end = call.emit("Slice", {x, cut, call.integer_list({kEnd}), axes});
    const std::string begin = call.emit("Slice", {x, call.integer_list({0}), cut, axes});
    x = call.emit("Concat", {end, begin}, {{"axis", axis}});
  }
  call.result("Identity", {x});
}

void pixel_shuffle(AtenCall& call) {
  call.result("DepthToSpace", {call.tensor("self")},
              {{"blocksize", call.integer("upscale_factor", 1)}, {"mode", std::string("CRD")}});
}

// Neighbours' differences along a dim, with what stands before and behind.
void difference(AtenCall& call) {
  if (call.integer("n", 1) != 1) return call.fail("n is not 1");
  const size_t rank = call.rank("self");
  const int64_t axis = call.axis("dim", -1, rank);
  std::vector<std::string> parts;
  if (call.has("prepend")) parts.push_back(call.tensor("prepend"));
  parts.push_back(call.tensor("self"));
  if (call.has("append")) parts.push_back(call.tensor("append"));
  const std::string x =
      parts.size() == 1 ? parts[0] : call.emit("Concat", std::move(parts), {{"axis", axis}});
  const std::string axes = call.integer_list({axis});
  const std::string later =
      call.emit("Slice", {x, call.integer_list({1}), call.integer_list({kEnd}), axes});
  const std::string before =
      call.emit("Slice", {x, call.integer_list({0}), call.integer_list({-1}), axes});
  if (call.out_type() != DType::kBool) return call.result("Sub", {later, before});
  call.result("Xor", {later, before});
}

// What is written into a tensor: the source, as large as the tensor.
void copied(AtenCall& call) {
  const std::string source = call.operand("src", call.out_type());
  call.result("Expand", {source, call.size_list(call.out().dims)});
}

void filled_with(AtenCall& call) {
  const std::string value = call.operand("value", call.out_type());
  call.result("Expand", {value, call.size_list(call.out().dims)});
}

void zeroed(AtenCall& call) {
  call.result("Identity", {call.filled(0, call.out_type(), call.out().dims)});
}

constexpr AtenRow kMovementAtenRows[] = {
    {"aten.alias.default", same},
    {"aten.clone.default", same},
    {"aten.contiguous.default", same},
    {"aten.lift_fresh_copy.default", same},
    {"aten.lift_fresh.default", same},
    {"aten.detach.default", detached},
    {"aten.to.dtype", to_type},
    {"aten.to.dtype_layout", to_type},
    {"aten.to.device", to_type},
    {"aten.to.other", to_type},
    {"aten._to_copy.default", to_type},
    {"aten.type_as.default", to_type},
    {"aten.view.default", reshape},
    {"aten._unsafe_view.default", reshape},
    {"aten.reshape.default", reshape},
    {"aten.view_as.default", as_told},
    {"aten.reshape_as.default", as_told},
    {"aten.unflatten.int", as_told},
    {"aten.squeeze.default", as_told},
    {"aten.squeeze.dim", as_told},
    {"aten.squeeze.dims", as_told},
    {"aten.flatten.using_ints", flatten},
    {"aten.permute.default", permute},
    {"aten.movedim.int", move_axes},
    {"aten.movedim.intlist", move_axes},
    {"aten.transpose.int", swap},
    {"aten.swapaxes.default", swap},
    {"aten.swapdims.default", swap},
    {"aten.t.default", swap},
    {"aten.mT.default", reverse_dims, "last"},
    {"aten.numpy_T.default", reverse_dims, "all"},
    {"aten.unsqueeze.default", unsqueeze},
    {"aten.expand.default", expand},
    {"aten.expand_as.default", expand},
    {"aten.broadcast_tensors.default", broadcast_all},
    {"aten.broadcast_to.default", expand},
    {"aten.repeat.default", repeat},
    {"aten.tile.default", repeat},
    {"aten.repeat_interleave.self_int", repeat_each},
    {"aten.slice.Tensor", slice},
    {"aten.narrow.default", narrow},
    {"aten.select.int", select},
    {"aten.cat.default", concat},
    {"aten.concat.default", concat},
    {"aten.stack.default", stack},
    {"aten.split.Tensor", split},
    {"aten.split.sizes", split},
    {"aten.split_with_sizes.default", split},
    {"aten.chunk.default", split},
    {"aten.tensor_split.sections", split},
    {"aten.unbind.int", unbind},
    {"aten.pad.default", pad},
    {"aten.constant_pad_nd.default", pad},
    {"aten.triu.default", triangle, "upper"},
    {"aten.tril.default", triangle, "lower"},
    {"aten.flip.default", flip},
    {"aten.roll.default", roll},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.diff.default", difference},
    {"aten.copy.default", copied},
    {"aten.fill.Scalar", filled_with},
    {"aten.fill.Tensor", filled_with},
    {"aten.zero.default", zeroed},
};

}  // namespace

std::span<const AtenRow> aten_movement_rows() {
  return kMovementAtenRows;
}

}  // namespace lowtide::io
