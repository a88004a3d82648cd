// Elementwise ONNX ops. A scalar constant operand becomes an attribute (AffineScalar, PowScalar),
// so that no tensor of one element is stored, broadcast and differentiated; all other constants
// become values.
#include <fmt/format.h>

#include <cmath>

#include "io/convert.h"
#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;

// ONNX name and Lowtide name agree for these.
Status same(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result(call.node().op_type, {x});
}

// The root of a sum of squares: an exported program's std says so.
Status root(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  ir::Attrs attrs;
  if (int_attr(call.node(), "norm", 0) != 0) attrs.emplace("norm", int64_t{1});
  return call.result("Sqrt", {x}, std::move(attrs));
}

Status activation(NodeCall& call, std::vector<std::pair<std::string_view, double>> reals) {
  LT_ASSIGN(const ValueId x, call.value(0));
  ir::Attrs attrs;
  for (const auto& [name, otherwise] : reals)
    attrs.emplace(name, real_attr(call.node(), name, otherwise));
  return call.result(call.node().op_type, {x}, std::move(attrs));
}

Status leaky_relu(NodeCall& call) {
  return activation(call, {{"alpha", 0.01}});
}
Status elu(NodeCall& call) {
  return activation(call, {{"alpha", 1.0}});
}
Status hard_sigmoid(NodeCall& call) {
  return activation(call, {{"alpha", 0.2}, {"beta", 0.5}});
}

Status gelu(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Gelu", {x},
                     {{"approximate", word(word_attr(call.node(), "approximate", "none"))}});
}

// x * sigmoid(alpha x).
Status swish(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  LT_ASSIGN(const ValueId x, call.value(0));
  const double alpha = real_attr(call.node(), "alpha", 1.0);
  if (alpha == 1.0) return call.result("Silu", {x});
  LT_ASSIGN(const ValueId scaled,
            call.emit("AffineScalar", {x}, {{"scale", alpha}, {"shift", 0.0}}));
  LT_ASSIGN(const ValueId gate, call.emit("Sigmoid", {scaled}));
  return call.result("Mul", {x, gate});
}

// max(0, x) with a threshold: x where x > alpha, else 0.
Status thresholded_relu(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  LT_ASSIGN(const ValueId x, call.value(0));
  const double alpha = real_attr(call.node(), "alpha", 1.0);
  LT_ASSIGN(const ValueId limit, call.inline_number(alpha, call.dtype(0), "alpha"));
  LT_ASSIGN(const ValueId nothing, call.inline_number(0, call.dtype(0), "zero"));
  LT_ASSIGN(const ValueId above, call.emit("Greater", {x, limit}));
  return call.result("Where", {above, x, nothing});
}

Status softsign(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId size, call.emit("Abs", {x}));
  LT_ASSIGN(const ValueId divisor,
            call.emit("AffineScalar", {size}, {{"scale", 1.0}, {"shift", 1.0}}));
  return call.result("Div", {x, divisor});
}

Status identity(NodeCall& call) {
  call.pass(0);
  return {};
}

Status cast_to(NodeCall& call, std::optional<DType> to, std::string_view named) {
  if (!to)
    return error(ErrorCode::kInput, fmt::format("a cast to {}, which is not computed with", named));
  if (*to == call.dtype(0)) return identity(call);
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Cast", {x}, {{"to", word(lowtide::name(*to))}});
}

Status cast(NodeCall& call) {
  const int32_t code = static_cast<int32_t>(int_attr(call.node(), "to", 0));
  return cast_to(call, onnx_dtype(code), onnx_type_name(code));
}

// The same bits read as another type of their width. A bool is 0 or 1, so other bits are none.
Status bit_cast(NodeCall& call) {
  const auto code = static_cast<int32_t>(int_attr(call.node(), "to", 0));
  const auto to = onnx_dtype(code);
  const DType from = call.dtype(0);
  if (!to)
    return error(ErrorCode::kInput,
                 fmt::format("bits read as {}, which is not computed with", onnx_type_name(code)));
  if (*to == from) return identity(call);
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("BitCast", {x}, {{"to", word(lowtide::name(*to))}});
}

// Only the type of input 1 matters, so a known input 0 stays known.
Status cast_like(NodeCall& call) {
  if (const HostValue* known = call.host(0)) {
    const HostValue type = host_unknown(call.dtype(1), {}, "only its type is known");
    const HostValue* inputs[] = {known, &type};
    if (auto folded = evaluate({call.node(), inputs, call.opset()})) {
      call.set_host(0, std::move(folded->front()));
      return {};
    }
  }
  return cast_to(call, call.dtype(1), "the type of input 1");
}

// Clip's limits: attributes before opset 11, inputs since. What is not known when the model is read
// is a maximum and a minimum.
Status clip(NodeCall& call) {
  constexpr std::string_view kNames[] = {"min", "max"}, kKinds[] = {"Max", "Min"};
  ir::Attrs attrs;
  bool known = true;
  for (size_t i = 0; i < 2; ++i) {
    const std::string name(kNames[i]);
    if (has_attr(call.node(), name)) attrs.emplace(name, real_attr(call.node(), name, 0));
    if (!call.has(i + 1)) continue;
    auto limit = call.number(i + 1);
    known &= limit.has_value();
    if (limit) attrs.emplace(name, std::move(*limit));
  }
  LT_ASSIGN(ValueId x, call.value(0));
  if (known) {
    if (attrs.empty()) return identity(call);
    if (int_attr(call.node(), "open", 0) != 0) attrs.emplace("open", int64_t{1});
    return call.result("Clip", {x}, std::move(attrs));
  }
  std::vector<std::pair<std::string_view, ValueId>> steps;
  for (size_t i = 0; i < 2; ++i) {
    if (!call.has(i + 1)) continue;
    LT_ASSIGN(const ValueId limit, call.value(i + 1));
    steps.emplace_back(kKinds[i], limit);
  }
  if (steps.size() == 2) {
    LT_ASSIGN(x, call.emit(steps[0].first, {x, steps[0].second}));
  }
  return call.result(steps.back().first, {x, steps.back().second});
}

// ---- two operands ----

// Whether x * (1 / c) is x / c, bit for bit: c is a power of two whose reciprocal is no denormal of
// f32.
bool divides_exactly(double c) {
  int exponent = 0;
  return std::abs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent) < 126;
}

// op(x, c) or op(c, x) for a float scalar c that leaves x's shape alone, as one op with attributes.
// `constant` is c's position.
Result<bool> with_scalar(NodeCall& call, size_t constant) {
  const size_t other = 1 - constant;
  const auto c = call.scalar(constant);
  if (!c || !is_float(call.dtype(other)) || call.host(other) != nullptr) return false;
  if (call.dims(constant).size() > call.dims(other).size()) return false;
  const std::string& op = call.node().op_type;
  LT_ASSIGN(const ValueId x, call.value(other));
  const auto affine = [&](double scale, double shift) -> Result<bool> {
    LT_RETURN_IF_ERROR(call.result("AffineScalar", {x}, {{"scale", scale}, {"shift", shift}}));
    return true;
  };
  if (op == "Add") return affine(1.0, *c);
  if (op == "Mul") return affine(*c, 0.0);
  if (op == "Sub") return constant == 1 ? affine(1.0, -*c) : affine(-1.0, *c);
  if (op == "Div" && constant == 1 && divides_exactly(*c)) return affine(1.0 / *c, 0.0);
  if (op == "Pow" && constant == 1) {
    LT_RETURN_IF_ERROR(call.result("PowScalar", {x}, {{"exponent", *c}}));
    return true;
  }
  return false;
}

// The operands, with formulas kept narrow where the other side fills in the extents.
Result<std::pair<ValueId, ValueId>> operands(NodeCall& call) {
  LT_ASSIGN(const ir::Dims dims, broadcast(call.dims(0), call.dims(1)));
  LT_ASSIGN(const ValueId a, call.dims(1) == dims ? call.operand(0) : call.value(0));
  LT_ASSIGN(const ValueId b,
            call.dims(0) == dims && call.host(0) == nullptr ? call.operand(1) : call.value(1));
  return std::pair(a, b);
}

Status arithmetic(NodeCall& call) {
  if (call.inputs() != 2)
    return error(ErrorCode::kInput, fmt::format("{} operands, not 2", call.inputs()));
  for (const size_t constant : {size_t{1}, size_t{0}}) {
    LT_ASSIGN(const bool done, with_scalar(call, constant));
    if (done) return {};
  }
  LT_ASSIGN(const auto pair, operands(call));
  return call.result(call.node().op_type, {pair.first, pair.second});
}

// The base decides the result's type. An exponent of another type is cast to it; but where a float
// is the exponent of an integer, both are computed in f64 (2^0.5 is 1, and 4^0.5 is 2).
Status power(NodeCall& call) {
  LT_ASSIGN(const bool done, with_scalar(call, 1));
  if (done) return {};
  LT_ASSIGN(ValueId base, call.value(0));
  const DType type = call.dtype(0);
  if (is_integer(type) && call.host(1) != nullptr && is_integer(call.dtype(1)) &&
      call.dims(1).size() <= call.dims(0).size()) {
    if (auto exponent = call.number(1))
      return call.result("PowScalar", {base}, {{"exponent", std::move(*exponent)}});
  }
  LT_ASSIGN(ValueId exponent, call.value(1));
  const auto in_type = [&](ValueId x, DType to) -> Result<ValueId> {
    if (call.of(x).dtype == to) return x;
    return call.emit("Cast", {x}, {{"to", word(lowtide::name(to))}});
  };
  const bool real = is_integer(type) && is_float(call.dtype(1));
  const DType computed = real ? DType::kF64 : type;
  LT_ASSIGN(base, in_type(base, computed));
  LT_ASSIGN(exponent, in_type(exponent, computed));
  if (!real) return call.result("Pow", {base, exponent});
  LT_ASSIGN(const ValueId powers, call.emit("Pow", {base, exponent}));
  return call.result("Cast", {powers}, {{"to", word(lowtide::name(type))}});
}

Status compare(NodeCall& call) {
  LT_ASSIGN(const auto pair, operands(call));
  return call.result(call.node().op_type, {pair.first, pair.second});
}

// And with true, Or with false, are the other operand, repeated where the result is larger.
Status logic(NodeCall& call) {
  LT_ASSIGN(ir::Dims dims, broadcast(call.dims(0), call.dims(1)));
  for (size_t i = 0; i < 2; ++i) {
    const auto formula = call.host(i) != nullptr ? as_indexed(*call.host(i)) : std::nullopt;
    const auto known = formula ? known_truth(formula->cell.conditions) : std::nullopt;
    if (!known || *known != (call.node().op_type == "And")) continue;
    if (call.dims(1 - i) == dims) {
      call.pass(1 - i);
      return {};
    }
    LT_ASSIGN(const ValueId other, call.value(1 - i));
    return call.result("Expand", {other}, {{"shape", list(std::move(dims))}});
  }
  return compare(call);
}

// -x - 1, which is ~x in two's complement, also modulo 2^n.
Status bitwise_not(NodeCall& call) {
  if (!is_integer(call.dtype(0)))
    return error(ErrorCode::kInput,
                 fmt::format("input 0 is {}, not integers", name(call.dtype(0))));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("AffineScalar", {x}, {{"scale", int64_t{-1}}, {"shift", int64_t{-1}}});
}

Status bit_shift(NodeCall& call) {
  const std::string direction = word_attr(call.node(), "direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return error(ErrorCode::kInput, fmt::format("direction is '{}', not LEFT or RIGHT", direction));
  if (!is_unsigned(call.dtype(0)))
    return error(ErrorCode::kInput,
                 fmt::format("input 0 is {}, not unsigned integers", name(call.dtype(0))));
  LT_ASSIGN(const auto pair, operands(call));
  return call.result(direction == "LEFT" ? "ShiftLeft" : "ShiftRight", {pair.first, pair.second});
}

Status where(NodeCall& call) {
  LT_ASSIGN(const ValueId condition, call.value(0));
  LT_ASSIGN(const ValueId a, call.value(1));
  LT_ASSIGN(const ValueId b, call.value(2));
  return call.result("Where", {condition, a, b});
}

// ---- any number of operands ----

// Operand i as it is, or in the type in which sums are added up.
Result<ValueId> summand(NodeCall& call, size_t i, bool wide) {
  LT_ASSIGN(const ValueId x, call.value(i));
  return wide ? call.wide(x) : x;
}

Result<ValueId> chain(NodeCall& call, std::string_view kind, size_t count, bool wide) {
  LT_ASSIGN(ValueId total, summand(call, 0, wide));
  for (size_t i = 1; i < count; ++i) {
    LT_ASSIGN(const ValueId next, summand(call, i, wide));
    LT_ASSIGN(total, call.emit(kind, {total, next}));
  }
  return total;
}

// One sum is rounded once; between several a total may be too large for 16 bits.
Status n_ary(NodeCall& call, std::string_view kind) {
  if (call.inputs() == 1) return identity(call);
  const DType type = call.dtype(0);
  const bool wide = kind == "Add" && call.inputs() > 2;
  LT_ASSIGN(const ValueId left, chain(call, kind, call.inputs() - 1, wide));
  LT_ASSIGN(const ValueId last, summand(call, call.inputs() - 1, wide));
  return call.result_as(type, kind, {left, last});
}

// With `first`, which an exported program's clamp has, a limit takes nothing of a tie.
Status extreme(NodeCall& call, std::string_view kind) {
  if (int_attr(call.node(), "first", 0) == 0) return n_ary(call, kind);
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId limit, call.value(1));
  return call.result(kind, {x, limit}, {{"first", int64_t{1}}});
}

Status maximum(NodeCall& call) {
  return extreme(call, "Max");
}
Status minimum(NodeCall& call) {
  return extreme(call, "Min");
}
Status sum(NodeCall& call) {
  return n_ary(call, "Add");
}

Status mean(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  if (call.inputs() == 1) return identity(call);
  const DType type = call.dtype(0);
  LT_ASSIGN(const ValueId total, chain(call, "Add", call.inputs(), true));
  const auto count = static_cast<double>(call.inputs());
  if (divides_exactly(count))
    return call.result_as(type, "AffineScalar", {total}, {{"scale", 1.0 / count}, {"shift", 0.0}});
  LT_ASSIGN(const ValueId divisor, call.inline_number(count, call.of(total).dtype, "count"));
  return call.result_as(type, "Div", {total, divisor});
}

// With fmod the remainder has the sign of the dividend, which is the only form that floats have.
Status modulo(NodeCall& call) {
  const bool like_c = int_attr(call.node(), "fmod", 0) != 0;
  if (!like_c && is_float(call.dtype(0)))
    return error(ErrorCode::kInput, "a Mod of floats has the attribute fmod");
  LT_ASSIGN(const auto pair, operands(call));
  return call.result("Mod", {pair.first, pair.second}, {{"fmod", int64_t{like_c}}});
}

constexpr ConvertRow kElementwiseRows[] = {
    {"Relu", 1, same},
    {"Sigmoid", 1, same},
    {"Tanh", 1, same},
    {"Erf", 1, same},
    {"Exp", 1, same},
    {"Log", 1, same},
    {"Sqrt", 1, root},
    {"Reciprocal", 1, same},
    {"Neg", 1, same},
    {"Abs", 1, same},
    {"Sin", 1, same},
    {"Cos", 1, same},
    {"Tan", 1, same},
    {"Sinh", 1, same},
    {"Cosh", 1, same},
    {"Asin", 1, same},
    {"Acos", 1, same},
    {"Atan", 1, same},
    {"Asinh", 1, same},
    {"Acosh", 1, same},
    {"Atanh", 1, same},
    {"Floor", 1, same},
    {"Ceil", 1, same},
    {"Round", 1, same},
    {"Sign", 1, same},
    {"Softplus", 1, same},
    {"HardSwish", 1, same},
    {"Mish", 1, same},
    {"Silu", 1, same},
    {"Not", 1, same},
    {"IsNaN", 1, same},
    {"LeakyRelu", 1, leaky_relu},
    {"Elu", 1, elu},
    {"HardSigmoid", 1, hard_sigmoid},
    {"Gelu", 1, gelu},
    {"Swish", 1, swish},
    {"ThresholdedRelu", 1, thresholded_relu},
    {"Softsign", 1, softsign},
    {"Identity", 1, identity},
    {"Cast", 1, cast},
    {"CastLike", 2, cast_like},
    {"BitCast", 1, bit_cast},
    {"Clip", 1, clip},
    {"Add", 2, arithmetic},
    {"Sub", 2, arithmetic},
    {"Mul", 2, arithmetic},
    {"Div", 2, arithmetic},
    {"Pow", 2, power},
    {"Mod", 2, modulo},
    {"Equal", 2, compare},
    {"Less", 2, compare},
    {"LessOrEqual", 2, compare},
    {"Greater", 2, compare},
    {"GreaterOrEqual", 2, compare},
    {"And", 2, logic},
    {"Or", 2, logic},
    {"Xor", 2, compare},
    {"BitwiseAnd", 2, compare},
    {"BitwiseOr", 2, compare},
    {"BitwiseXor", 2, compare},
    {"BitwiseNot", 1, bitwise_not},
    {"BitShift", 2, bit_shift},
    {"Where", 3, where},
    {"Max", 1, maximum},
    {"Min", 1, minimum},
    {"Sum", 1, sum},
    {"Mean", 1, mean},
};

}  // namespace

std::span<const ConvertRow> elementwise_conversions() {
  return kElementwiseRows;
}

}  // namespace lowtide::io
