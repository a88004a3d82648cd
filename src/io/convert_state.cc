// Ops that carry a state from one call of a decoder to the next, which the caller keeps: each is a
// few ops of the table over the state and what is new, and its new state is an output.
#include "io/convert_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/convert.h"
#include "io/onnx_attrs.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// `size` places of a dimension from `start` on.
ir::Attrs cut_along(const ir::Dims& from, size_t axis, const Expr& start, const Expr& size) {
  ir::Dims starts(from.size(), Expr(0)), sizes = from;
  starts[axis] = start;
  sizes[axis] = size;
  return {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}};
}

// ---- a causal convolution over time

struct CausalShape {
  ir::Dims x;            // [batch, channels, length]
  int64_t channels = 0;  // one kernel for each
  int64_t taps = 0;
};

Result<CausalShape> causal_shape(NodeCall& call) {
  CausalShape shape{.x = call.dims(0)};
  const ir::Dims weights = call.dims(1);
  if (shape.x.size() != 3 || weights.size() != 3)
    return error(ErrorCode::kInput, fmt::format("an input of rank {} and weights of rank {}, not 3",
                                                shape.x.size(), weights.size()));
  if (!shape.x[1].constant()) return error(ErrorCode::kInput, needs_number(shape.x[1]));
  shape.channels = *shape.x[1].constant();
  shape.taps = weights[2].constant().value_or(0);
  if (shape.taps < 1 || !(weights[0] == shape.x[1]) || !(weights[1] == Expr(1)))
    return error(ErrorCode::kInput,
                 fmt::format("weights of [{}, {}, {}] for {} channels", sym::print(weights[0]),
                             sym::print(weights[1]), sym::print(weights[2]), shape.channels));
  const ir::Dims state = {shape.x[0], shape.x[1], Expr(shape.taps - 1)};
  if (call.has(3) && call.dims(3) != state)
    return error(ErrorCode::kInput,
                 fmt::format("input 3 ('{}') is no state of {} places of {} channels",
                             call.node().inputs[3], shape.taps - 1, shape.channels));
  return shape;
}

// The last taps - 1 places of `whole`, what the convolution runs over, or of x where they are all
// new.
Status new_state(NodeCall& call, const CausalShape& shape, ValueId x, ValueId whole) {
  if (!call.wants(1)) return {};
  const Expr size(shape.taps - 1), length = shape.x[2];
  if (shape.taps == 1) {  // no place, of no element
    HostValue nothing;
    nothing.dtype = call.dtype(0);
    nothing.dims = {shape.x[0], shape.x[1], Expr(0)};
    nothing.form = HostValue::Form::kIndexed;
    nothing.cell = {flat(0, 3), 0, 0, {}};
    call.set_host(1, std::move(nothing));
    return {};
  }
  const bool all_new = length.constant().value_or(0) >= shape.taps - 1;
  if (!all_new && !call.has(3)) {  // zeros stand for what there was before
    LT_ASSIGN(whole, call.emit("Pad", {x},
                               {{"begins", list(std::vector<int64_t>{0, 0, shape.taps - 1})},
                                {"ends", list(std::vector<int64_t>{0, 0, 0})},
                                {"value", 0.0}}));
  }
  const ValueId from = all_new ? x : whole;
  return call
      .result_at(1, "Slice", {from},
                 cut_along(call.of(from).dims, 2, all_new ? length - size : length, size))
      .map([](ValueId) {});
}

Status causal_convolution(NodeCall& call) {
  const std::string activation = word_attr(call.node(), "activation", "none");
  const bool gated = activation == "silu" || activation == "swish";
  if (!gated && activation != "none")
    return error(ErrorCode::kInput,
                 fmt::format("activation '{}' is not none, silu or swish", activation));
  LT_ASSIGN(const CausalShape shape, causal_shape(call));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId weights, call.value(1));
  const bool past = call.has(3) && shape.taps > 1;
  ValueId whole = x;
  if (past) {
    LT_ASSIGN(const ValueId before, call.value(3));
    LT_ASSIGN(whole, call.emit("Concat", {before, x}, {{"axis", int64_t{2}}}));
  }
  std::vector<ValueId> inputs = {whole, weights};
  if (call.has(2)) {
    LT_ASSIGN(const ValueId bias, call.value(2));
    inputs.push_back(bias);
  }
  LT_RETURN_IF_ERROR(new_state(call, shape, x, whole));
  const ir::Attrs attrs = {{"strides", list(std::vector<int64_t>{1})},
                           {"pads", list(std::vector<int64_t>{past ? 0 : shape.taps - 1, 0})},
                           {"dilations", list(std::vector<int64_t>{1})},
                           {"group", shape.channels}};
  if (!gated) return call.result("Conv", std::move(inputs), attrs);
  LT_ASSIGN(const ValueId sums, call.emit("Conv", std::move(inputs), attrs));
  return call.result("Silu", {sums});
}

// ---- new keys or values into a cache

struct CacheWrite {
  ir::Dims cache, update;
  size_t axis = 0;
  bool circular = false;
};

Result<CacheWrite> cache_write(NodeCall& call) {
  CacheWrite write{.cache = call.dims(0), .update = call.dims(1)};
  const std::string mode = word_attr(call.node(), "mode", "linear");
  if (mode != "linear" && mode != "circular")
    return error(ErrorCode::kInput, fmt::format("mode '{}' is not linear or circular", mode));
  write.circular = mode == "circular";
  LT_ASSIGN(write.axis, normal_axis(int_attr(call.node(), "axis", -2), write.cache.size()));
  if (write.axis == 0) return error(ErrorCode::kInput, "axis 0 is that of the batch");
  if (write.update.size() != write.cache.size())
    return error(ErrorCode::kInput, fmt::format("an update of rank {} into a cache of rank {}",
                                                write.update.size(), write.cache.size()));
  const auto room = write.cache[write.axis].constant(),
             wanted = write.update[write.axis].constant();
  if (room && wanted && *wanted > *room)
    return error(ErrorCode::kInput,
                 fmt::format("an update of {} places into a cache of {}", *wanted, *room));
  return write;
}

// From the first place on: the update, then what it leaves of the cache.
Status write_from_zero(NodeCall& call, const CacheWrite& write) {
  const Expr& room = write.cache[write.axis];
  const Expr& taken = write.update[write.axis];
  if (taken == room) {
    call.pass(1);
    return {};
  }
  LT_ASSIGN(const ValueId cache, call.value(0));
  LT_ASSIGN(const ValueId update, call.value(1));
  LT_ASSIGN(const ValueId rest,
            call.emit("Slice", {cache}, cut_along(write.cache, write.axis, taken, room - taken)));
  return call.result("Concat", {update, rest}, {{"axis", static_cast<int64_t>(write.axis)}});
}

// 0, 1, 2, ... below each other, for any number of them.
Result<ValueId> steps_of(NodeCall& call, const Expr& count) {
  LT_ASSIGN(const ValueId ones, call.emit("Fill", {},
                                          {{"shape", list(std::vector<Expr>{count, Expr(1)})},
                                           {"value", int64_t{1}},
                                           {"dtype", word(lowtide::name(DType::kI64))}}));
  return call.emit("CumSum", {ones},
                   {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{0}}});
}

// The place of each update in its sequence's cache: where the sequence stands, and on from there;
// the same for all that lies between batch and axis.
Result<ValueId> places_of(NodeCall& call, const CacheWrite& write) {
  LT_ASSIGN(const ValueId onward, steps_of(call, write.update[write.axis]));
  LT_ASSIGN(ValueId start, call.value(2));
  ir::Dims dims(write.axis + 2, Expr(1));
  dims[0] = write.cache[0];
  LT_ASSIGN(start, call.emit("Reshape", {start}, {{"shape", list(dims)}}));
  LT_ASSIGN(ValueId places, call.emit("Add", {start, onward}));
  if (write.circular) {
    HostValue room = host_scalar(write.cache[write.axis]);
    LT_ASSIGN(const ValueId extent, call.inline_constant(room, "room"));
    LT_ASSIGN(places, call.emit("Mod", {places, extent}, {{"fmod", int64_t{0}}}));
  }
  std::copy_n(write.cache.begin(), write.axis, dims.begin());
  dims[write.axis] = write.update[write.axis];
  if (call.of(places).dims == dims) return places;
  return call.emit("Expand", {places}, {{"shape", list(std::move(dims))}});
}

Status tensor_scatter(NodeCall& call) {
  LT_ASSIGN(const CacheWrite write, cache_write(call));
  if (!call.has(2)) return write_from_zero(call, write);
  if (call.dims(2) != ir::Dims{write.cache[0]})
    return error(ErrorCode::kInput, fmt::format("input 2 ('{}') is not one place for each of {}",
                                                call.node().inputs[2], sym::print(write.cache[0])));
  LT_ASSIGN(const ValueId places, places_of(call, write));
  LT_ASSIGN(const ValueId cache, call.value(0));
  LT_ASSIGN(const ValueId update, call.value(1));
  return call.result(
      "ScatterND", {cache, places, update},
      {{"batch_dims", static_cast<int64_t>(write.axis)}, {"reduction", word("none")}});
}

constexpr ConvertRow kStateRows[] = {{"CausalConvWithState", 2, causal_convolution},
                                     {"TensorScatter", 2, tensor_scatter}};

}  // namespace

std::span<const ConvertRow> state_conversions() {
  return kStateRows;
}

}  // namespace lowtide::io
