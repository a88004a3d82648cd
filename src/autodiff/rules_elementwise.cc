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

// dx = dy / (2 y)
Status sqrt_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId half, c.make("AffineScalar", {dy}, {{"scale", 0.5}, {"shift", 0.0}}));
  LT_ASSIGN(const ValueId dx, c.make("Div", {half, c.output(0)}));
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

// dx = dy * e * x^(e-1); squares skip the power.
Status pow_scalar_rule(RuleContext& c) {
  const double exponent = real_attr(c.attrs(), "exponent");
  LT_ASSIGN(const ValueId dy, c.dy());
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

// da = dy b a^(b-1), db = dy y log a
Status pow_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  if (c.needs(0)) {
    LT_ASSIGN(const ValueId less,
              c.make("AffineScalar", {c.input(1)}, {{"scale", 1.0}, {"shift", -1.0}}));
    LT_ASSIGN(const ValueId power, c.make("Pow", {c.input(0), less}));
    LT_ASSIGN(const ValueId slope, c.make("Mul", {power, c.input(1)}));
    LT_ASSIGN(const ValueId da, c.make("Mul", {slope, dy}));
    LT_RETURN_IF_ERROR(c.give_reduced(0, da));
  }
  if (!c.needs(1)) return {};
  LT_ASSIGN(const ValueId logarithm, c.make("Log", {c.input(0)}));
  LT_ASSIGN(const ValueId part, c.make("Mul", {dy, c.output(0)}));
  LT_ASSIGN(const ValueId db, c.make("Mul", {part, logarithm}));
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

// The first operand of a tie gets all of dy.
Status max_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId first, c.make("GreaterOrEqual", {c.input(0), c.input(1)}));
  return give_chosen(c, first, 0);
}
Status min_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId first, c.make("LessOrEqual", {c.input(0), c.input(1)}));
  return give_chosen(c, first, 0);
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
