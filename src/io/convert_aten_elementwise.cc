// Elementwise ATen ops. PyTorch promotes types, ONNX does not: operands are cast to the type of the
// result, those of comparisons to the type that PyTorch compares in.
#include <cmath>
#include <limits>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

// One operand, in the type of the result (the sine of integers is a float).
void unary(AtenCall& call) {
  call.result(call.row().onnx, {call.operand("self", call.out_type())});
}

// Of the operand's own type, whatever the result has: tests.
void test(AtenCall& call) {
  call.result(call.row().onnx, {call.tensor("self")});
}

void binary(AtenCall& call) {
  const DType type = call.out_type();
  call.result(call.row().onnx, {call.operand("self", type), call.operand("other", type)});
}

// self + alpha * other, self - alpha * other.
void sum(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type);
  std::string y = call.operand("other", type);
  const double alpha = call.real("alpha", 1);
  if (alpha != 1) y = call.emit("Mul", {y, call.number(alpha, type)});
  if (type == DType::kBool)
    call.result("Or", {x, y});
  else
    call.result(call.row().onnx, {x, y});
}

void reversed_difference(AtenCall& call) {
  const DType type = call.out_type();
  if (call.real("alpha", 1) != 1) return call.fail("alpha is not 1");
  call.result("Sub", {call.operand("other", type), call.operand("self", type)});
}

void product(AtenCall& call) {
  const DType type = call.out_type();
  call.result(type == DType::kBool ? "And" : "Mul",
              {call.operand("self", type), call.operand("other", type)});
}

void quotient(AtenCall& call) {
  const DType type = call.out_type();
  const std::string mode = call.word("rounding_mode", "");
  const std::string x = call.operand("self", type), y = call.operand("other", type);
  if (mode.empty()) return call.result("Div", {x, y});
  if (!is_float(type)) {
    if (mode == "trunc") return call.result("Div", {x, y});
    // Rounded down: what is left over has the sign of the divisor.
    const std::string rest = call.emit("Mod", {x, y});
    return call.result("Div", {call.emit("Sub", {x, rest}), y});
  }
  if (mode != "floor") return call.fail("rounding_mode '" + mode + "' of floats");
  call.result("Floor", {call.emit("Div", {x, y})});
}

void floor_quotient(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), y = call.operand("other", type);
  if (is_float(type)) return call.result("Floor", {call.emit("Div", {x, y})});
  call.result("Div", {call.emit("Sub", {x, call.emit("Mod", {x, y})}), y});
}

// The remainder with the sign of the divisor.
void remainder(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), y = call.operand("other", type);
  if (!is_float(type)) return call.result("Mod", {x, y});
  const std::string floor = call.emit("Floor", {call.emit("Div", {x, y})});
  call.result("Sub", {x, call.emit("Mul", {floor, y})});
}

void power(AtenCall& call) {
  const DType type = call.out_type();
  if (!call.is_tensor("exponent") && call.is_tensor("self")) {
    const double exponent = call.real("exponent", 1);
    const std::string x = call.operand("self", type);
    if (exponent == 2) return call.result("Mul", {x, x});
    if (exponent == 0.5 && is_float(type)) return call.result("Sqrt", {x});
    return call.result("Pow", {x, call.number(exponent, type)});
  }
  call.result("Pow", {call.operand("self", type), call.operand("exponent", type)});
}

void compare(AtenCall& call) {
  const auto has_dims = [&](std::string_view name) {
    return call.is_tensor(name) && call.rank(name) > 0;
  };
  const DType type =
      promoted(call.type("self"), has_dims("self"), call.type("other"), has_dims("other"));
  const std::string x = call.operand("self", type), y = call.operand("other", type);
  if (call.row().onnx != "NotEqual") return call.result(call.row().onnx, {x, y});
  call.result("Not", {call.emit("Equal", {x, y})});
}

// On truth values: ONNX has And, Or and Xor for those alone.
void logical(AtenCall& call) {
  call.result(call.row().onnx,
              {call.operand("self", DType::kBool), call.operand("other", DType::kBool)});
}

void bitwise(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), y = call.operand("other", type);
  const std::string op(call.row().onnx);
  call.result(type == DType::kBool ? op : "Bitwise" + op, {x, y});
}

void bitwise_not(AtenCall& call) {
  call.result(call.out_type() == DType::kBool ? "Not" : "BitwiseNot", {call.tensor("self")});
}

void logical_not(AtenCall& call) {
  call.result("Not", {call.operand("self", DType::kBool)});
}

void reciprocal_root(AtenCall& call) {
  const std::string root = call.emit("Sqrt", {call.operand("self", call.out_type())});
  call.result("Reciprocal", {root});
}

void square(AtenCall& call) {
  const std::string x = call.tensor("self");
  call.result("Mul", {x, x});
}

void log_base(AtenCall& call) {
  const DType type = call.out_type();
  const double base = call.row().onnx == "2" ? 2.0 : 10.0;
  const std::string log = call.emit("Log", {call.operand("self", type)});
  call.result("Mul", {log, call.number(1 / std::log(base), type)});
}

void log_one_plus(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type);
  call.result("Log", {call.emit("Add", {x, call.number(1, type)})});
}

void exp_less_one(AtenCall& call) {
  const DType type = call.out_type();
  const std::string e = call.emit("Exp", {call.operand("self", type)});
  call.result("Sub", {e, call.number(1, type)});
}

void clamp(AtenCall& call) {
  const DType type = call.out_type();
  std::vector<std::string> inputs = {call.operand("self", type)};
  inputs.push_back(call.has("min") ? call.operand("min", type) : "");
  if (call.has("max")) inputs.push_back(call.operand("max", type));
  const bool numbers = !call.is_tensor("min") && !call.is_tensor("max");
  if (numbers) return call.result("Clip", std::move(inputs));
  std::string x = inputs[0];
  AtenAttrs first;
  if (is_float(type)) first.emplace_back("first", int64_t{1});
  if (!inputs[1].empty()) x = call.emit("Max", {x, inputs[1]}, first);
  if (inputs.size() > 2) x = call.emit("Min", {x, inputs[2]}, first);
  call.result("Identity", {x});
}

void clamp_below(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), limit = call.operand("min", type);
  if (call.is_tensor("min")) return call.result("Max", {x, limit}, {{"first", int64_t{1}}});
  call.result("Clip", {x, limit});
}

void clamp_above(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), limit = call.operand("max", type);
  if (call.is_tensor("max")) return call.result("Min", {x, limit}, {{"first", int64_t{1}}});
  call.result("Clip", {x, "", limit});
}

void where(AtenCall& call) {
  const DType type = call.out_type();
  call.result("Where", {call.operand("condition", DType::kBool), call.operand("self", type),
                        call.operand("other", type)});
}

void masked_fill(AtenCall& call) {
  const DType type = call.out_type();
  call.result("Where", {call.operand("mask", DType::kBool), call.operand("value", type),
                        call.operand("self", type)});
}

// self + value * a * b, self + value * a / b.
void add_product(AtenCall& call) {
  const DType type = call.out_type();
  std::string term =
      call.emit(call.row().onnx, {call.operand("tensor1", type), call.operand("tensor2", type)});
  const double value = call.real("value", 1);
  if (value != 1) term = call.emit("Mul", {term, call.number(value, type)});
  call.result("Add", {call.operand("self", type), term});
}

// self + weight * (end - self).
void interpolate(AtenCall& call) {
  const DType type = call.out_type();
  const std::string x = call.operand("self", type);
  const std::string way = call.emit("Sub", {call.operand("end", type), x});
  call.result("Add", {x, call.emit("Mul", {way, call.operand("weight", type)})});
}

// ---- activations ----

void silu(AtenCall& call) {
  const std::string x = call.tensor("self");
  call.result("Mul", {x, call.emit("Sigmoid", {x})});
}

void gelu(AtenCall& call) {
  call.result("Gelu", {call.tensor("self")}, {{"approximate", call.word("approximate", "none")}});
}

void leaky_relu(AtenCall& call) {
  call.result("LeakyRelu", {call.tensor("self")}, {{"alpha", call.real("negative_slope", 0.01)}});
}

void elu(AtenCall& call) {
  if (call.real("scale", 1) != 1 || call.real("input_scale", 1) != 1)
    return call.fail("a scale that is not 1");
  call.result("Elu", {call.tensor("self")}, {{"alpha", call.real("alpha", 1)}});
}

// Unlike a clamp these have no slope at their limits.
void relu_six(AtenCall& call) {
  const DType type = call.out_type();
  call.result("Clip", {call.tensor("self"), call.number(0, type), call.number(6, type)},
              {{"open", int64_t{1}}});
}

void hard_tanh(AtenCall& call) {
  const DType type = call.out_type();
  call.result("Clip",
              {call.tensor("self"), call.number(call.real("min_val", -1), type),
               call.number(call.real("max_val", 1), type)},
              {{"open", int64_t{1}}});
}

void hard_sigmoid(AtenCall& call) {
  call.result("HardSigmoid", {call.tensor("self")}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}

void softplus(AtenCall& call) {
  if (call.real("beta", 1) != 1) return call.fail("beta is not 1");
  call.result("Softplus", {call.tensor("self")});
}

void log_sigmoid(AtenCall& call) {
  const std::string negative = call.emit("Neg", {call.tensor("self")});
  call.result("Neg", {call.emit("Softplus", {negative})});
}

// One slope for all, or one for each channel.
void prelu(AtenCall& call) {
  std::string slope = call.tensor("weight");
  const size_t rank = call.rank("self");
  if (rank > 2) {
    std::vector<int64_t> axes;
    for (size_t d = 1; d + 1 < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    slope = call.emit("Unsqueeze", {slope, call.integer_list(axes)});
  }
  call.result("PRelu", {call.tensor("self"), slope});
}

// The first half times the sigmoid of the second.
void gated(AtenCall& call) {
  const int64_t axis = call.axis("dim", -1, call.rank("self"));
  const auto& dims = call.meta("self").dims;
  if (call.mistake().empty() && !dims.empty()) {
    const sym::Expr half = sym::floordiv(dims[static_cast<size_t>(axis)], 2);
    const std::string x = call.tensor("self"), middle = call.size_list({half}),
                      axes = call.integer_list({axis});
    const std::string a = call.emit("Slice", {x, call.integer_list({0}), middle, axes});
    const std::string b = call.emit(
        "Slice", {x, middle, call.integer_list({std::numeric_limits<int64_t>::max()}), axes});
    call.result("Mul", {a, call.emit("Sigmoid", {b})});
  }
}

constexpr AtenRow kElementwiseAtenRows[] = {
    {"aten.relu.default", unary, "Relu"},
    {"aten.sigmoid.default", unary, "Sigmoid"},
    {"aten.tanh.default", unary, "Tanh"},
    {"aten.erf.default", unary, "Erf"},
    {"aten.exp.default", unary, "Exp"},
    {"aten.log.default", unary, "Log"},
    {"aten.sqrt.default", unary, "Sqrt"},
    {"aten.reciprocal.default", unary, "Reciprocal"},
    {"aten.neg.default", unary, "Neg"},
    {"aten.abs.default", unary, "Abs"},
    {"aten.sin.default", unary, "Sin"},
    {"aten.cos.default", unary, "Cos"},
    {"aten.tan.default", unary, "Tan"},
    {"aten.sinh.default", unary, "Sinh"},
    {"aten.cosh.default", unary, "Cosh"},
    {"aten.asin.default", unary, "Asin"},
    {"aten.acos.default", unary, "Acos"},
    {"aten.atan.default", unary, "Atan"},
    {"aten.floor.default", unary, "Floor"},
    {"aten.ceil.default", unary, "Ceil"},
    {"aten.round.default", unary, "Round"},
    {"aten.sign.default", unary, "Sign"},
    {"aten.hardswish.default", unary, "HardSwish"},
    {"aten.mish.default", unary, "Mish"},
    {"aten.isnan.default", test, "IsNaN"},
    {"aten.isinf.default", test, "IsInf"},
    {"aten.rsqrt.default", reciprocal_root},
    {"aten.square.default", square},
    {"aten.log2.default", log_base, "2"},
    {"aten.log10.default", log_base, "10"},
    {"aten.log1p.default", log_one_plus},
    {"aten.expm1.default", exp_less_one},
    {"aten.add.Tensor", sum, "Add"},
    {"aten.add.Scalar", sum, "Add"},
    {"aten.sub.Tensor", sum, "Sub"},
    {"aten.sub.Scalar", sum, "Sub"},
    {"aten.rsub.Tensor", reversed_difference},
    {"aten.rsub.Scalar", reversed_difference},
    {"aten.mul.Tensor", product},
    {"aten.mul.Scalar", product},
    {"aten.div.Tensor", quotient},
    {"aten.div.Scalar", quotient},
    {"aten.div.Tensor_mode", quotient},
    {"aten.div.Scalar_mode", quotient},
    {"aten.floor_divide.default", floor_quotient},
    {"aten.floor_divide.Scalar", floor_quotient},
    {"aten.remainder.Tensor", remainder},
    {"aten.remainder.Scalar", remainder},
    {"aten.pow.Tensor_Scalar", power},
    {"aten.pow.Tensor_Tensor", power},
    {"aten.pow.Scalar", power},
    {"aten.maximum.default", binary, "Max"},
    {"aten.minimum.default", binary, "Min"},
    {"aten.max.other", binary, "Max"},
    {"aten.min.other", binary, "Min"},
    {"aten.eq.Tensor", compare, "Equal"},
    {"aten.eq.Scalar", compare, "Equal"},
    {"aten.ne.Tensor", compare, "NotEqual"},
    {"aten.ne.Scalar", compare, "NotEqual"},
    {"aten.lt.Tensor", compare, "Less"},
    {"aten.lt.Scalar", compare, "Less"},
    {"aten.le.Tensor", compare, "LessOrEqual"},
    {"aten.le.Scalar", compare, "LessOrEqual"},
    {"aten.gt.Tensor", compare, "Greater"},
    {"aten.gt.Scalar", compare, "Greater"},
    {"aten.ge.Tensor", compare, "GreaterOrEqual"},
    {"aten.ge.Scalar", compare, "GreaterOrEqual"},
    {"aten.logical_and.default", logical, "And"},
    {"aten.logical_or.default", logical, "Or"},
    {"aten.logical_xor.default", logical, "Xor"},
    {"aten.logical_not.default", logical_not},
    {"aten.bitwise_and.Tensor", bitwise, "And"},
    {"aten.bitwise_and.Scalar", bitwise, "And"},
    {"aten.bitwise_or.Tensor", bitwise, "Or"},
    {"aten.bitwise_or.Scalar", bitwise, "Or"},
    {"aten.bitwise_xor.Tensor", bitwise, "Xor"},
    {"aten.__and__.Tensor", bitwise, "And"},
    {"aten.__and__.Scalar", bitwise, "And"},
    {"aten.__or__.Tensor", bitwise, "Or"},
    {"aten.__or__.Scalar", bitwise, "Or"},
    {"aten.__xor__.Tensor", bitwise, "Xor"},
    {"aten.bitwise_not.default", bitwise_not},
    {"aten.clamp.default", clamp},
    {"aten.clamp.Tensor", clamp},
    {"aten.clip.default", clamp},
    {"aten.clamp_min.default", clamp_below},
    {"aten.clamp_max.default", clamp_above},
    {"aten.clamp_min.Tensor", clamp_below},
    {"aten.clamp_max.Tensor", clamp_above},
    {"aten.where.self", where},
    {"aten.where.ScalarOther", where},
    {"aten.where.ScalarSelf", where},
    {"aten.where.Scalar", where},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.addcmul.default", add_product, "Mul"},
    {"aten.addcdiv.default", add_product, "Div"},
    {"aten.lerp.Scalar", interpolate},
    {"aten.lerp.Tensor", interpolate},
    {"aten.silu.default", silu},
    {"aten.gelu.default", gelu},
    {"aten.leaky_relu.default", leaky_relu},
    {"aten.elu.default", elu},
    {"aten.relu6.default", relu_six},
    {"aten.hardtanh.default", hard_tanh},
    {"aten.hardsigmoid.default", hard_sigmoid},
    {"aten.softplus.default", softplus},
    {"aten.log_sigmoid.default", log_sigmoid},
    {"aten.prelu.default", prelu},
    {"aten.glu.default", gated},
};

}  // namespace

std::span<const AtenRow> aten_elementwise_rows() {
  return kElementwiseAtenRows;
}

}  // namespace lowtide::io
