// Rules of elementwise ops. Where the table has a gradient op, one op does it; the others are
// composed from primitives.
#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

// dy and the result: Relu, Sigmoid, Tanh keep y, which the next op keeps anyway.
Status from_result(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make(std::string(c.kind()) + "Grad", {dy, c.output(0)}));
  return c.give(0, dx);
}

Status from_operand(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make(std::string(c.kind()) + "Grad", {dy, c.input(0)}, c.attrs()));
  return c.give(0, dx);
}

// ---- composed, one operand

Status exp_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Mul", {dy, c.output(0)}));
  return c.give(0, dx);
}

Status log_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Div", {dy, c.input(0)}));
  return c.give(0, dx);
}

// Whether an attribute that may be absent is there and not 0.
bool asked(const RuleContext& c, std::string_view name) {
  const auto found = c.attrs().find(std::string(name));
  return found != c.attrs().end() && found->second != ir::AttrValue(int64_t{0});
}

// dx = dy / (2 y). The root of a sum of squares (norm) has slope 0 at 0, as PyTorch's norm: it is
// the least of its subgradients there.
Status sqrt_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId half, c.make("AffineScalar", {dy}, {{"scale", 0.5}, {"shift", 0.0}}));
  LT_ASSIGN(ValueId dx, c.make("Div", {half, c.output(0)}));
  if (asked(c, "norm")) {
    LT_ASSIGN(const ValueId zero, c.number(0, dy));
    LT_ASSIGN(const ValueId none, c.make("Equal", {c.output(0), zero}));
    LT_ASSIGN(dx, c.make("Where", {none, zero, dx}));
  }
  return c.give(0, dx);
}

// dx = -dy y y
Status reciprocal_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId once, c.make("Mul", {dy, c.output(0)}));
  LT_ASSIGN(const ValueId twice, c.make("Mul", {once, c.output(0)}));
  LT_ASSIGN(const ValueId dx, c.make("Neg", {twice}));
  return c.give(0, dx);
}

Status neg_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Neg", {dy}));
  return c.give(0, dx);
}

// dx = dy * slope(x), for a slope that is an op.
Status times(RuleContext& c, std::string_view slope_kind, bool negated) {
  LT_ASSIGN(ValueId slope, c.make(slope_kind, {c.input(0)}));
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(ValueId dx, c.make("Mul", {dy, slope}));
  if (negated) {
    LT_ASSIGN(dx, c.make("Neg", {dx}));
  }
  return c.give(0, dx);
}
Status abs_rule(RuleContext& c) {
  return times(c, "Sign", false);
}
Status sin_rule(RuleContext& c) {
  return times(c, "Cos", false);
}
Status cos_rule(RuleContext& c) {
  return times(c, "Sin", true);
}

// dx = dy * (1 + y^2)
Status tan_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId square, c.make("PowScalar", {c.output(0)}, {{"exponent", 2.0}}));
  LT_ASSIGN(const ValueId slope,
            c.make("AffineScalar", {square}, {{"scale", 1.0}, {"shift", 1.0}}));
  LT_ASSIGN(const ValueId dx, c.make("Mul", {dy, slope}));
  return c.give(0, dx);
}
Status sinh_rule(RuleContext& c) {
  return times(c, "Cosh", false);
}
Status cosh_rule(RuleContext& c) {
  return times(c, "Sinh", false);
}

// dx = dy / (scale * x^2 + shift), or that divisor's root.
Result<ValueId> over_square(RuleContext& c, double scale, double shift, bool root) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId square, c.make("PowScalar", {c.input(0)}, {{"exponent", 2.0}}));
  LT_ASSIGN(ValueId divisor,
            c.make("AffineScalar", {square}, {{"scale", scale}, {"shift", shift}}));
  if (root) {
    LT_ASSIGN(divisor, c.make("Sqrt", {divisor}));
  }
  return c.make("Div", {dy, divisor});
}
Status asin_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dx, over_square(c, -1, 1, true));
  return c.give(0, dx);
}
Status acos_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId opposite, over_square(c, -1, 1, true));
  LT_ASSIGN(const ValueId dx, c.make("Neg", {opposite}));
  return c.give(0, dx);
}
Status atan_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dx, over_square(c, 1, 1, false));
  return c.give(0, dx);
}
Status asinh_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dx, over_square(c, 1, 1, true));
  return c.give(0, dx);
}
Status acosh_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dx, over_square(c, 1, -1, true));
  return c.give(0, dx);
}
Status atanh_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dx, over_square(c, -1, 1, false));
  return c.give(0, dx);
}

// dx = dy * e * x^(e-1). x^0 has slope 0 everywhere, also where x^-1 is infinite.
Status pow_scalar_rule(RuleContext& c) {
  const double exponent = real_attr(c.attrs(), "exponent");
  LT_ASSIGN(const ValueId dy, c.dy());
  if (exponent == 1) return c.give(0, dy);
  if (exponent == 0) {
    LT_ASSIGN(const ValueId zero, c.number(0, dy));
    LT_ASSIGN(const ValueId dx, c.make("Expand", {zero}, {{"shape", ir::Dims(c.dims(dy))}}));
    return c.give(0, dx);
  }
  ValueId power = c.input(0);
  if (exponent != 2) {
    LT_ASSIGN(power, c.make("PowScalar", {power}, {{"exponent", exponent - 1}}));
  }
  LT_ASSIGN(const ValueId slope,
            c.make("AffineScalar", {power}, {{"scale", exponent}, {"shift", 0.0}}));
  LT_ASSIGN(const ValueId dx, c.make("Mul", {dy, slope}));
  return c.give(0, dx);
}

Status affine_rule(RuleContext& c) {
  const double scale = real_attr(c.attrs(), "scale", 1);
  if (const auto known = c.constant_dy()) return c.give_constant(0, *known * scale);
  LT_ASSIGN(ValueId dx, c.dy());
  if (scale != 1) {
    LT_ASSIGN(dx, c.make("AffineScalar", {dx}, {{"scale", scale}, {"shift", 0.0}}));
  }
  return c.give(0, dx);
}

Status cast_rule(RuleContext& c) {
  LT_ASSIGN(ValueId dx, c.dy());
  if (c.dtype(dx) != c.dtype(c.input(0))) {
    LT_ASSIGN(dx, c.make("Cast", {dx}, {{"to", std::string(name(c.dtype(c.input(0))))}}));
  }
  return c.give(0, dx);
}

Status copy_rule(RuleContext& c) {
  if (const auto known = c.constant_dy()) return c.give_constant(0, *known);
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.give(0, dy);
}

// The same mask again: it is a function of the stream and the element.
Status dropout_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Dropout", {dy}, c.attrs()));
  return c.give(0, dx);
}

// ---- two operands

Status add_rule(RuleContext& c) {
  const bool scalars = c.dims(c.input(0)).empty() && c.dims(c.input(1)).empty();
  if (const auto known = c.constant_dy(); known && scalars) {
    LT_RETURN_IF_ERROR(c.give_constant(0, *known));
    return c.give_constant(1, *known);
  }
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_RETURN_IF_ERROR(c.give_reduced(0, dy));
  return c.give_reduced(1, dy);
}

Status sub_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_RETURN_IF_ERROR(c.give_reduced(0, dy));
  if (!c.needs(1)) return {};
  LT_ASSIGN(const ValueId summed, c.reduce_to(dy, ir::Dims(c.dims(c.input(1)))));
  LT_ASSIGN(const ValueId db, c.make("Neg", {summed}));
  return c.give(1, db);
}

Status mul_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  for (size_t i = 0; i < 2; ++i) {
    if (!c.needs(i)) continue;
    LT_ASSIGN(const ValueId product, c.make("Mul", {dy, c.input(1 - i)}));
    LT_RETURN_IF_ERROR(c.give_reduced(i, product));
  }
  return {};
}

// da = dy / b, db = -da y
Status div_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId da, c.make("Div", {dy, c.input(1)}));
  LT_RETURN_IF_ERROR(c.give_reduced(0, da));
  if (!c.needs(1)) return {};
  LT_ASSIGN(const ValueId product, c.make("Mul", {da, c.output(0)}));
  LT_ASSIGN(const ValueId summed, c.reduce_to(product, ir::Dims(c.dims(c.input(1)))));
  LT_ASSIGN(const ValueId db, c.make("Neg", {summed}));
  return c.give(1, db);
}

// da = dy b a^(b-1), but 0 where b is 0.
Result<ValueId> base_gradient(RuleContext& c, ValueId dy, ValueId zero) {
  const ValueId a = c.input(0), b = c.input(1);
  LT_ASSIGN(const ValueId less, c.make("AffineScalar", {b}, {{"scale", 1.0}, {"shift", -1.0}}));
  LT_ASSIGN(const ValueId power, c.make("Pow", {a, less}));
  LT_ASSIGN(const ValueId slope, c.make("Mul", {power, b}));
  LT_ASSIGN(const ValueId da, c.make("Mul", {slope, dy}));
  LT_ASSIGN(const ValueId flat, c.make("Equal", {b, zero}));
  return c.make("Where", {flat, zero, da});
}

// db = dy y log a, but 0 where a is 0 and b is not negative.
Result<ValueId> exponent_gradient(RuleContext& c, ValueId dy, ValueId zero) {
  const ValueId a = c.input(0), b = c.input(1);
  LT_ASSIGN(const ValueId logarithm, c.make("Log", {a}));
  LT_ASSIGN(const ValueId slope, c.make("Mul", {c.output(0), logarithm}));
  LT_ASSIGN(const ValueId db, c.make("Mul", {slope, dy}));
  LT_ASSIGN(const ValueId nothing, c.make("Equal", {a, zero}));
  LT_ASSIGN(const ValueId grows, c.make("GreaterOrEqual", {b, zero}));
  LT_ASSIGN(const ValueId flat, c.make("And", {nothing, grows}));
  return c.make("Where", {flat, zero, db});
}

Status pow_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId zero, c.number(0, dy));
  if (c.needs(0)) {
    LT_ASSIGN(const ValueId da, base_gradient(c, dy, zero));
    LT_RETURN_IF_ERROR(c.give_reduced(0, da));
  }
  if (!c.needs(1)) return {};
  LT_ASSIGN(const ValueId db, exponent_gradient(c, dy, zero));
  return c.give_reduced(1, db);
}

// Gives operand `first` dy where `condition` holds and operand `first + 1` dy where it does not.
Status give_chosen(RuleContext& c, ValueId condition, size_t first) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId zero, c.number(0, dy));
  if (c.needs(first)) {
    LT_ASSIGN(const ValueId da, c.make("Where", {condition, dy, zero}));
    LT_RETURN_IF_ERROR(c.give_reduced(first, da));
  }
  if (!c.needs(first + 1)) return {};
  LT_ASSIGN(const ValueId db, c.make("Where", {condition, zero, dy}));
  return c.give_reduced(first + 1, db);
}

// With `first` all of dy to operand 0 where they are equal, and nothing to either where one is no
// number, as of a limit that is a tensor (PyTorch's clamp).
Status limited_rule(RuleContext& c, std::string_view loses_a, std::string_view keeps_a) {
  const ValueId a = c.input(0), b = c.input(1);
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId zero, c.number(0, dy));
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!c.needs(i)) continue;
    LT_ASSIGN(const ValueId takes, c.make(i == 0 ? keeps_a : loses_a, {a, b}));
    LT_ASSIGN(const ValueId dx, c.make("Where", {takes, dy, zero}));
    LT_RETURN_IF_ERROR(c.give_reduced(i, dx));
  }
  return {};
}

// dy to the operand that was chosen, half of it to each where they are equal. Of more than two
// operands the graph has a chain of these.
Status extreme_rule(RuleContext& c, std::string_view loses_a, std::string_view loses_b) {
  const ValueId a = c.input(0), b = c.input(1);
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId zero, c.number(0, dy));
  LT_ASSIGN(const ValueId half, c.make("AffineScalar", {dy}, {{"scale", 0.5}, {"shift", 0.0}}));
  LT_ASSIGN(const ValueId equal, c.make("Equal", {a, b}));
  LT_ASSIGN(const ValueId share, c.make("Where", {equal, half, dy}));
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!c.needs(i)) continue;
    LT_ASSIGN(const ValueId loses, c.make(i == 0 ? loses_a : loses_b, {a, b}));
    LT_ASSIGN(const ValueId dx, c.make("Where", {loses, zero, share}));
    LT_RETURN_IF_ERROR(c.give_reduced(i, dx));
  }
  return {};
}
Status max_rule(RuleContext& c) {
  if (asked(c, "first")) return limited_rule(c, "Less", "GreaterOrEqual");
  return extreme_rule(c, "Less", "Greater");
}
Status min_rule(RuleContext& c) {
  if (asked(c, "first")) return limited_rule(c, "Greater", "LessOrEqual");
  return extreme_rule(c, "Greater", "Less");
}
Status where_rule(RuleContext& c) {
  return give_chosen(c, c.input(0), 1);
}

}  // namespace

void add_elementwise_rules(RuleTable& table) {
  for (const char* kind : {"Relu", "Sigmoid", "Tanh"}) table[kind] = from_result;
  for (const char* kind : {"Gelu", "Silu", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish", "Clip",
                           "Softplus", "Mish", "Erf"})
    table[kind] = from_operand;
  table["Exp"] = exp_rule;
  table["Log"] = log_rule;
  table["Sqrt"] = sqrt_rule;
  table["Reciprocal"] = reciprocal_rule;
  table["Neg"] = neg_rule;
  table["Abs"] = abs_rule;
  table["Sin"] = sin_rule;
  table["Cos"] = cos_rule;
  table["Tan"] = tan_rule;
  table["Sinh"] = sinh_rule;
  table["Cosh"] = cosh_rule;
  table["Asin"] = asin_rule;
  table["Acos"] = acos_rule;
  table["Atan"] = atan_rule;
  table["Asinh"] = asinh_rule;
  table["Acosh"] = acosh_rule;
  table["Atanh"] = atanh_rule;
  table["PowScalar"] = pow_scalar_rule;
  table["AffineScalar"] = affine_rule;
  table["Cast"] = cast_rule;
  table["Copy"] = copy_rule;
  table["Dropout"] = dropout_rule;
  table["Add"] = add_rule;
  table["Sub"] = sub_rule;
  table["Mul"] = mul_rule;
  table["Div"] = div_rule;
  table["Pow"] = pow_rule;
  table["Max"] = max_rule;
  table["Min"] = min_rule;
  table["Where"] = where_rule;
}

}  // namespace lowtide::autodiff
