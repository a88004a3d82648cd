// Attention and rotary positions, each one ONNX op since opset 23, written out in products, a
// softmax and views: softmax(scale q k^T + mask) v, per head. A planner gains from seeing the score
// matrix, which is what fills the memory. The heads of k and v may be fewer than those of q; each
// is then shared by a group of query heads.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

Result<ValueId> view(NodeCall& call, ValueId x, std::vector<Expr> dims) {
  if (call.of(x).dims == dims) return x;
  return call.emit("Reshape", {x}, {{"shape", list(std::move(dims))}});
}

Result<ValueId> swap_middle(NodeCall& call, ValueId x) {
  return call.emit("Transpose", {x}, {{"perm", list(std::vector<int64_t>{0, 2, 1, 3})}});
}

// [n, heads, sequence, size] from rank 4, or from [n, sequence, heads * size].
Result<ValueId> per_head(NodeCall& call, size_t i, std::string_view heads_attr) {
  LT_ASSIGN(const ValueId x, call.value(i));
  const ir::Dims dims = call.dims(i);
  if (dims.size() == 4) return x;
  const Expr heads = int_attr(call.node(), heads_attr, 0);
  if (dims.size() != 3 || heads == Expr(0))
    return error(ErrorCode::kInput, fmt::format("input {} of rank {} with {} heads", i, dims.size(),
                                                sym::print(heads)));
  LT_ASSIGN(const ValueId apart,
            view(call, x, {dims[0], dims[1], heads, sym::floordiv(dims[2], heads)}));
  return swap_middle(call, apart);
}

// k or v with as many heads as q: each head repeated for its group of query heads.
Result<ValueId> repeated(NodeCall& call, ValueId x, const Expr& heads) {
  const ir::Dims dims = call.of(x).dims;
  if (dims[1] == heads) return x;
  const Expr group = sym::floordiv(heads, dims[1]);
  LT_ASSIGN(const ValueId apart, view(call, x, {dims[0], dims[1], Expr(1), dims[2], dims[3]}));
  LT_ASSIGN(
      const ValueId copies,
      call.emit("Expand", {apart},
                {{"shape", list(std::vector<Expr>{dims[0], dims[1], group, dims[2], dims[3]})}}));
  return view(call, copies, {dims[0], heads, dims[2], dims[3]});
}

// What stands where a mask forbids.
constexpr double kNothing = -std::numeric_limits<double>::infinity();

// x where `where` is true, else `otherwise`.
Result<ValueId> keep(NodeCall& call, ValueId where, ValueId x, double otherwise,
                     std::string_view called) {
  LT_ASSIGN(const ValueId other, call.inline_number(otherwise, call.of(x).dtype, called));
  return call.emit("Where", {where, x, other});
}

bool is_bool(NodeCall& call, ValueId x) {
  return call.of(x).dtype == DType::kBool;
}

// A mask as what is added to scores: 0 where a boolean one allows, and -inf elsewhere.
Result<ValueId> additive(NodeCall& call, ValueId mask, DType dtype) {
  if (!is_bool(call, mask)) return mask;
  LT_ASSIGN(const ValueId zero, call.inline_number(0, dtype, "allowed"));
  return keep(call, mask, zero, kNothing, "forbidden");
}

// The mask of input 3. One that ends before the last key forbids what it does not reach.
Result<ValueId> given_mask(NodeCall& call, DType dtype, const Expr& keys) {
  LT_ASSIGN(ValueId mask, call.value(3));
  ir::Dims dims = call.of(mask).dims;
  if (dims.empty() || dims.back() == keys) return mask;
  LT_ASSIGN(mask, additive(call, mask, dtype));
  std::vector<Expr> begins(dims.size(), Expr(0)), ends(dims.size(), Expr(0));
  ends.back() = keys - dims.back();
  return call.emit(
      "Pad", {mask},
      {{"begins", list(std::move(begins))}, {"ends", list(std::move(ends))}, {"value", kNothing}});
}

// Keys from the length of each sequence on are padding (input 6).
Result<ValueId> padding_mask(NodeCall& call, const ir::Dims& scores) {
  HostValue place;
  place.dims = {scores[3]};
  place.form = HostValue::Form::kIndexed;
  place.cell.integer = along(0, 1);
  LT_ASSIGN(const ValueId places, call.inline_constant(place, "places"));
  LT_ASSIGN(ValueId length, call.value(6));
  LT_ASSIGN(length, view(call, length, {scores[0], Expr(1), Expr(1), Expr(1)}));
  return call.emit("Less", {places, length});
}

// The causal mask as a formula: -inf where a key comes after the query, `past` keys being older
// than all queries.
Result<ValueId> causal_mask(NodeCall& call, DType dtype, const ir::Dims& scores, const Expr& past) {
  Affine age = along(0, 2) - along(1, 2);
  age.base = age.base + past;
  HostValue mask;
  mask.dtype = dtype;
  mask.dims = {scores[2], scores[3]};
  mask.form = HostValue::Form::kIndexed;
  mask.cell = {flat(0, 2), 0.0, kNothing, {age}};
  return call.inline_constant(mask, "causal");
}

// Two masks as one; either may be none.
Result<ValueId> both(NodeCall& call, ValueId a, ValueId b, DType dtype) {
  if (!a.valid()) return b;
  if (!b.valid()) return a;
  if (is_bool(call, a) && is_bool(call, b)) return call.emit("And", {a, b});
  LT_ASSIGN(a, additive(call, a, dtype));
  LT_ASSIGN(b, additive(call, b, dtype));
  return call.emit("Add", {a, b});
}

// All masks of a node as one, and where they may forbid a query every key, which queries may read
// one: bool[.., queries, 1].
//
// The scores of a query that may read nothing are all -inf, of which a softmax makes NaN (-inf less
// -inf), also of its gradient. Such a query is therefore masked by nothing, and its result made 0
// behind the products, so that nothing flows back either. The tensor that says so is as small as
// the masks, and what a training step keeps is what it keeps without one.
struct Mask {
  ValueId whole;  // bool: what is true may be read; a float is added; none: no mask
  ValueId reads;  // none: every query reads some key
};

Result<Mask> mask_of(NodeCall& call, DType dtype, const ir::Dims& scores, const Expr& past) {
  Mask mask;
  ValueId causal;
  if (int_attr(call.node(), "is_causal", 0) != 0) {
    LT_ASSIGN(causal, causal_mask(call, dtype, scores, past));
  }
  if (call.has(3)) {
    LT_ASSIGN(mask.whole, given_mask(call, dtype, scores[3]));
  }
  if (call.has(6)) {
    LT_ASSIGN(const ValueId padding, padding_mask(call, scores));
    LT_ASSIGN(mask.whole, both(call, mask.whole, padding, dtype));
  }
  const bool may_forbid_all = mask.whole.valid();  // a query of a causal mask reads the first key
  LT_ASSIGN(mask.whole, both(call, mask.whole, causal, dtype));
  if (!may_forbid_all) return mask;
  mask.reads = mask.whole;
  if (const ir::Dims dims = call.of(mask.whole).dims; !dims.empty()) {
    const std::vector<int64_t> keys = {static_cast<int64_t>(dims.size()) - 1};
    const ir::Attrs over = {{"axes", list(keys)}, {"keepdims", int64_t{1}}};
    LT_ASSIGN(mask.reads, call.emit("ReduceMax", {mask.whole}, over));
  }
  if (is_bool(call, mask.reads)) return mask;
  LT_ASSIGN(const ValueId nothing, call.inline_number(kNothing, dtype, "nothing"));
  LT_ASSIGN(mask.reads, call.emit("Equal", {mask.reads, nothing}));
  LT_ASSIGN(mask.reads, call.emit("Not", {mask.reads}));
  return mask;
}

Result<ValueId> masked(NodeCall& call, ValueId scores, ValueId mask) {
  if (!mask.valid()) return scores;
  if (is_bool(call, mask)) return keep(call, mask, scores, kNothing, "masked");
  return call.emit("Add", {scores, mask});
}

// The mask without the rows that forbid everything.
Result<ValueId> lifted(NodeCall& call, const Mask& mask) {
  if (!mask.reads.valid()) return mask.whole;
  if (!is_bool(call, mask.whole)) return keep(call, mask.reads, mask.whole, 0, "lifted");
  LT_ASSIGN(const ValueId blind, call.emit("Not", {mask.reads}));
  return call.emit("Or", {mask.whole, blind});
}

// 0 in the rows of queries that read nothing.
Result<ValueId> cleared(NodeCall& call, const Mask& mask, ValueId x) {
  return mask.reads.valid() ? keep(call, mask.reads, x, 0, "unread") : x;
}

Result<ValueId> soft_capped(NodeCall& call, ValueId scores) {
  const double cap = real_attr(call.node(), "softcap", 0);
  if (cap == 0) return scores;
  LT_ASSIGN(const ValueId divisor, call.inline_number(cap, call.of(scores).dtype, "softcap"));
  LT_ASSIGN(ValueId x, call.emit("Div", {scores, divisor}));
  LT_ASSIGN(x, call.emit("Tanh", {x}));
  return call.emit("AffineScalar", {x}, {{"scale", cap}, {"shift", 0.0}});
}

// The softmax in the type that the node asks for.
Result<ValueId> weights_of(NodeCall& call, ValueId scores) {
  const DType dtype = call.of(scores).dtype;
  const auto asked =
      onnx_dtype(static_cast<int32_t>(int_attr(call.node(), "softmax_precision", 0)));
  LT_ASSIGN(scores, call.as_type(scores, asked.value_or(dtype)));
  LT_ASSIGN(const ValueId weights, call.emit("Softmax", {scores}, {{"axis", int64_t{3}}}));
  return call.as_type(weights, dtype);
}

// Keys or values so far: the past ones (input `past`), then this step's, which are an output of
// the node where it asks for them.
Result<ValueId> joined(NodeCall& call, ValueId now, size_t past, size_t output) {
  if (call.has(past)) {
    LT_ASSIGN(const ValueId before, call.value(past));
    if (!call.wants(output)) return call.emit("Concat", {before, now}, {{"axis", int64_t{2}}});
    return call.result_at(output, "Concat", {before, now}, {{"axis", int64_t{2}}});
  }
  if (call.wants(output)) call.set(output, now);
  return now;
}

// q, times what the scores are scaled by: before the product, which leaves floats of 16 bits
// otherwise, and on fewer elements than there are scores.
Result<ValueId> scaled_query(NodeCall& call, ValueId q) {
  const Expr size = call.of(q).dims[3];
  double scale = real_attr(call.node(), "scale", 0);
  if (scale == 0) {
    if (!size.constant()) return error(ErrorCode::kInput, needs_number(size));
    scale = 1.0 / std::sqrt(static_cast<double>(*size.constant()));
  }
  return call.emit("AffineScalar", {q}, {{"scale", scale}, {"shift", 0.0}});
}

struct Weights {
  ValueId value;
  Mask mask;
};

// Output 3 is the scores at one of four places of the way to the softmax's result.
Result<Weights> scores_and_weights(NodeCall& call, ValueId q, ValueId k, const Expr& past) {
  LT_ASSIGN(q, scaled_query(call, q));
  LT_ASSIGN(ValueId scores, call.emit("MatMul", {q, k}, {{"trans_b", int64_t{1}}}));
  LT_ASSIGN(scores, soft_capped(call, scores));
  const int64_t mode = int_attr(call.node(), "qk_matmul_output_mode", 0);
  if (mode == 0 || mode == 1) call.set(3, scores);
  const ir::Dims dims = call.of(scores).dims;
  LT_ASSIGN(const Mask mask, mask_of(call, call.of(scores).dtype, dims, past));
  if (mode == 2 && call.wants(3)) {
    LT_ASSIGN(const ValueId shown, masked(call, scores, mask.whole));
    call.set(3, shown);
  }
  LT_ASSIGN(const ValueId left, lifted(call, mask));
  LT_ASSIGN(scores, masked(call, scores, left));
  LT_ASSIGN(const ValueId weights, weights_of(call, scores));
  if (mode == 3 && call.wants(3)) {
    LT_ASSIGN(const ValueId shown, cleared(call, mask, weights));
    call.set(3, shown);
  }
  return Weights{weights, mask};
}

Status attention(NodeCall& call) {
  for (size_t i = 0; i < 3; ++i) LT_RETURN_IF_ERROR(call.check_floats(i));
  if (call.has(4) != call.has(5))
    return error(ErrorCode::kInput, "past keys and past values (inputs 4 and 5) come together");
  LT_ASSIGN(const ValueId q, per_head(call, 0, "q_num_heads"));
  LT_ASSIGN(ValueId k, per_head(call, 1, "kv_num_heads"));
  LT_ASSIGN(ValueId v, per_head(call, 2, "kv_num_heads"));
  const Expr past = call.has(4) ? call.dims(4)[2] : Expr(0);
  LT_ASSIGN(k, joined(call, k, 4, 1));
  LT_ASSIGN(v, joined(call, v, 5, 2));
  const ir::Dims dims = call.of(q).dims;
  LT_ASSIGN(k, repeated(call, k, dims[1]));
  LT_ASSIGN(v, repeated(call, v, dims[1]));
  LT_ASSIGN(const Weights weights, scores_and_weights(call, q, k, past));
  const bool heads_apart = call.dims(0).size() == 4;
  if (heads_apart && !weights.mask.reads.valid()) return call.result("MatMul", {weights.value, v});
  LT_ASSIGN(ValueId heads, call.emit("MatMul", {weights.value, v}));
  if (heads_apart) {
    LT_ASSIGN(const ValueId zero, call.inline_number(0, call.of(heads).dtype, "unread"));
    return call.result("Where", {weights.mask.reads, heads, zero});
  }
  LT_ASSIGN(heads, cleared(call, weights.mask, heads));
  const ir::Dims out = call.of(heads).dims;
  LT_ASSIGN(const ValueId together, swap_middle(call, heads));
  return call.result("Reshape", {together},
                     {{"shape", list(std::vector<Expr>{out[0], out[2], out[1] * out[3]})}});
}

// ---- rotary positions ----

Result<ValueId> cut(NodeCall& call, ValueId x, const Expr& start, const Expr& size, int64_t step) {
  const ir::Dims dims = call.of(x).dims;
  std::vector<Expr> starts(dims.size(), Expr(0)), sizes(dims.begin(), dims.end());
  std::vector<int64_t> steps(dims.size(), 1);
  starts.back() = start;
  sizes.back() = size;
  steps.back() = step;
  return call.emit("Slice", {x},
                   {{"starts", list(std::move(starts))},
                    {"sizes", list(std::move(sizes))},
                    {"steps", list(steps)}});
}

// Rows of a cache of cosines or sines, for every head: [n, 1, sequence, half] beside heads in
// front, [n, sequence, 1, half] beside heads behind the sequence.
Result<ValueId> rotary_rows(NodeCall& call, size_t i, bool heads_first) {
  LT_ASSIGN(ValueId rows, call.value(i));
  if (call.has(3)) {
    LT_ASSIGN(const ValueId places, call.value(3));
    LT_ASSIGN(rows, call.emit("Gather", {rows, places}, {{"axis", int64_t{0}}}));
  }
  const ir::Dims dims = call.of(rows).dims;
  if (dims.size() != 3)
    return error(ErrorCode::kInput,
                 fmt::format("input {} has rank {}; without position ids it is [n, sequence, half]",
                             i, dims.size()));
  if (heads_first) return view(call, rows, {dims[0], Expr(1), dims[1], dims[2]});
  return view(call, rows, {dims[0], dims[1], Expr(1), dims[2]});
}

// Pairs (x1, x2) of each head turned by an angle of their position: (c x1 - s x2, s x1 + c x2).
// Pairs are neighbours when interleaved, else the two halves.
Result<ValueId> turned(NodeCall& call, ValueId x, bool heads_first, const Expr& size) {
  const Expr half = sym::floordiv(size, 2);
  const bool interleaved = int_attr(call.node(), "interleaved", 0) != 0;
  LT_ASSIGN(const ValueId cosine, rotary_rows(call, 1, heads_first));
  LT_ASSIGN(const ValueId sine, rotary_rows(call, 2, heads_first));
  LT_ASSIGN(const ValueId first, cut(call, x, Expr(0), half, interleaved ? 2 : 1));
  LT_ASSIGN(const ValueId second,
            cut(call, x, interleaved ? Expr(1) : half, half, interleaved ? 2 : 1));
  LT_ASSIGN(ValueId a, call.emit("Mul", {cosine, first}));
  LT_ASSIGN(ValueId b, call.emit("Mul", {sine, second}));
  LT_ASSIGN(ValueId real, call.emit("Sub", {a, b}));
  LT_ASSIGN(a, call.emit("Mul", {sine, first}));
  LT_ASSIGN(b, call.emit("Mul", {cosine, second}));
  LT_ASSIGN(ValueId imaginary, call.emit("Add", {a, b}));
  const ir::Dims dims = call.of(real).dims;
  if (!interleaved) return call.emit("Concat", {real, imaginary}, {{"axis", int64_t{3}}});
  const std::vector<Expr> apart = {dims[0], dims[1], dims[2], half, Expr(1)};
  LT_ASSIGN(real, view(call, real, apart));
  LT_ASSIGN(imaginary, view(call, imaginary, apart));
  LT_ASSIGN(const ValueId pairs, call.emit("Concat", {real, imaginary}, {{"axis", int64_t{4}}}));
  return view(call, pairs, {dims[0], dims[1], dims[2], size});
}

Status rotary(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(ValueId x, call.value(0));
  const bool heads_first = from.size() == 4;
  if (!heads_first) {
    const Expr heads = int_attr(call.node(), "num_heads", 0);
    if (from.size() != 3 || heads == Expr(0))
      return error(ErrorCode::kInput, fmt::format("an input of rank {} with num_heads {}",
                                                  from.size(), sym::print(heads)));
    LT_ASSIGN(x, view(call, x, {from[0], from[1], heads, sym::floordiv(from[2], heads)}));
  }
  const Expr whole = call.of(x).dims[3];
  const int64_t asked = int_attr(call.node(), "rotary_embedding_dim", 0);
  const Expr size = asked == 0 ? whole : Expr(asked);
  ValueId part = x;
  if (!(size == whole)) {
    LT_ASSIGN(part, cut(call, x, Expr(0), size, 1));
  }
  LT_ASSIGN(ValueId y, turned(call, part, heads_first, size));
  if (!(size == whole)) {
    LT_ASSIGN(const ValueId rest, cut(call, x, size, whole - size, 1));
    LT_ASSIGN(y, call.emit("Concat", {y, rest}, {{"axis", int64_t{3}}}));
  }
  return call.result("Reshape", {y}, {{"shape", list(from)}});
}

constexpr ConvertRow kAttentionRows[] = {{"Attention", 3, attention},
                                         {"RotaryEmbedding", 3, rotary}};

}  // namespace

std::span<const ConvertRow> attention_conversions() {
  return kAttentionRows;
}

}  // namespace lowtide::io
