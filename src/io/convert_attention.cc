// Attention as one ONNX op (opset 23), written out in products, a softmax and views: softmax(scale
// q k^T + mask) v, per head. A planner gains from seeing the score matrix, which is what fills the
// memory. The heads of k and v may be fewer than those of q; each is then shared by a group of
// query heads.
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

Result<ValueId> float_constant(NodeCall& call, double value, std::string_view name) {
  HostValue host = host_scalar(0);
  host.dtype = DType::kF32;
  host.ints.clear();
  host.reals = {value};
  return call.inline_constant(host, name);
}

// scores with the mask applied: a boolean one keeps what is true, a float one is added.
Result<ValueId> masked(NodeCall& call, ValueId scores) {
  if (!call.has(3)) return scores;
  const double lowest = -std::numeric_limits<double>::infinity();
  if (call.dtype(3) != DType::kBool) {
    LT_ASSIGN(const ValueId mask, call.operand(3));
    return call.emit("Add", {scores, mask});
  }
  LT_ASSIGN(const ValueId mask, call.value(3));
  LT_ASSIGN(const ValueId nothing, float_constant(call, lowest, "masked"));
  return call.emit("Where", {mask, scores, nothing});
}

// The causal mask as a formula: -inf above the diagonal.
Result<ValueId> causal(NodeCall& call, ValueId scores) {
  if (int_attr(call.node(), "is_causal", 0) == 0) return scores;
  const ir::Dims dims = call.of(scores).dims;
  HostValue mask;
  mask.dtype = DType::kF32;
  mask.dims = {dims[2], dims[3]};
  mask.form = HostValue::Form::kIndexed;
  mask.cell = {
      flat(0, 2), 0.0, -std::numeric_limits<double>::infinity(), {along(0, 2) - along(1, 2)}};
  LT_ASSIGN(const ValueId value, call.inline_constant(mask, "causal"));
  return call.emit("Add", {scores, value});
}

Result<ValueId> soft_capped(NodeCall& call, ValueId scores) {
  const double cap = real_attr(call.node(), "softcap", 0);
  if (cap == 0) return scores;
  LT_ASSIGN(ValueId x, call.emit("AffineScalar", {scores}, {{"scale", 1.0 / cap}, {"shift", 0.0}}));
  LT_ASSIGN(x, call.emit("Tanh", {x}));
  return call.emit("AffineScalar", {x}, {{"scale", cap}, {"shift", 0.0}});
}

Status attention(NodeCall& call) {
  for (size_t i = 4; i < call.inputs(); ++i)
    if (call.has(i))
      return error(ErrorCode::kInput,
                   fmt::format("input {} (past keys, past values, padding) is not taken", i));
  for (size_t i = 1; i < call.node().outputs.size(); ++i)
    if (call.wants(i))
      return error(ErrorCode::kInput,
                   fmt::format("output {} (present keys, values, scores) is not taken", i));
  LT_ASSIGN(const ValueId q, per_head(call, 0, "q_num_heads"));
  LT_ASSIGN(ValueId k, per_head(call, 1, "kv_num_heads"));
  LT_ASSIGN(ValueId v, per_head(call, 2, "kv_num_heads"));
  const ir::Dims dims = call.of(q).dims;
  LT_ASSIGN(k, repeated(call, k, dims[1]));
  LT_ASSIGN(v, repeated(call, v, dims[1]));
  LT_ASSIGN(ValueId scores, call.emit("MatMul", {q, k}, {{"trans_b", int64_t{1}}}));
  double scale = real_attr(call.node(), "scale", 0);
  if (scale == 0) {
    if (!dims[3].constant()) return error(ErrorCode::kInput, needs_number(dims[3]));
    scale = 1.0 / std::sqrt(static_cast<double>(*dims[3].constant()));
  }
  LT_ASSIGN(scores, call.emit("AffineScalar", {scores}, {{"scale", scale}, {"shift", 0.0}}));
  LT_ASSIGN(scores, soft_capped(call, scores));
  LT_ASSIGN(scores, causal(call, scores));
  LT_ASSIGN(scores, masked(call, scores));
  LT_ASSIGN(const ValueId weights, call.emit("Softmax", {scores}, {{"axis", int64_t{3}}}));
  if (call.dims(0).size() == 4) return call.result("MatMul", {weights, v});
  LT_ASSIGN(const ValueId heads, call.emit("MatMul", {weights, v}));
  const ir::Dims out = call.of(heads).dims;
  LT_ASSIGN(const ValueId together, swap_middle(call, heads));
  return call.result("Reshape", {together},
                     {{"shape", list(std::vector<Expr>{out[0], out[2], out[1] * out[3]})}});
}

constexpr ConvertRow kRows[] = {{"Attention", 3, attention}};

}  // namespace

std::span<const ConvertRow> attention_conversions() {
  return kRows;
}

}  // namespace lowtide::io
