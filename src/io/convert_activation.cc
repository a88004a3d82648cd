// Activations and tests that are a few ops of the table: exact, and differentiated as PyTorch does
// (PRelu's slope counts at 0). Constants take the type of the data.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"

namespace lowtide::io {
namespace {

using ir::ValueId;

Result<ValueId> constant(NodeCall& call, double value, std::string_view called) {
  HostValue scalar;
  scalar.dtype = call.dtype(0);
  scalar.reals = {value};
  return call.inline_constant(scalar, called);
}

Result<ValueId> scaled(NodeCall& call, ValueId x, double scale, double shift = 0) {
  return call.emit("AffineScalar", {x}, {{"scale", scale}, {"shift", shift}});
}

Status only_floats(const NodeCall& call) {
  if (is_float(call.dtype(0))) return {};
  return error(ErrorCode::kInput, fmt::format("input 0 is {}, not floats", name(call.dtype(0))));
}

// gamma times the Elu with this alpha.
Status selu(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  LT_ASSIGN(const ValueId x, call.value(0));
  const ir::Attrs attrs = {{"alpha", real_attr(call.node(), "alpha", 1.67326319217681884765625)}};
  LT_ASSIGN(const ValueId elu, call.emit("Elu", {x}, attrs));
  const double gamma = real_attr(call.node(), "gamma", 1.05070102214813232421875);
  return call.result("AffineScalar", {elu}, {{"scale", gamma}, {"shift", 0.0}});
}

// alpha times Elu(x / alpha).
Status celu(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  const double alpha = real_attr(call.node(), "alpha", 1);
  if (alpha == 0) return error(ErrorCode::kInput, "alpha is 0");
  LT_ASSIGN(ValueId x, call.value(0));
  if (alpha == 1) return call.result("Elu", {x}, {{"alpha", 1.0}});
  LT_ASSIGN(x, call.wide(x));
  LT_ASSIGN(const ValueId divided, scaled(call, x, 1 / alpha));
  LT_ASSIGN(const ValueId elu, call.emit("Elu", {divided}, {{"alpha", 1.0}}));
  return call.result_as(call.dtype(0), "AffineScalar", {elu}, {{"scale", alpha}, {"shift", 0.0}});
}

// A softmax that is 0 where all of x along the axis is -inf, and through which nothing flows back
// there.
Status safe_softmax(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), call.dims(0).size()));
  const std::vector<int64_t> axes = {static_cast<int64_t>(axis)};
  LT_ASSIGN(const ValueId zero, constant(call, 0, "zero"));
  LT_ASSIGN(const ValueId lowest,
            constant(call, -std::numeric_limits<double>::infinity(), "lowest"));
  LT_ASSIGN(const ValueId most,
            call.emit("ReduceMax", {x}, {{"axes", list(axes)}, {"keepdims", int64_t{1}}}));
  LT_ASSIGN(const ValueId empty, call.emit("Equal", {most, lowest}));
  LT_ASSIGN(const ValueId filled, call.emit("Where", {empty, zero, x}));
  LT_ASSIGN(const ValueId y, call.emit("Softmax", {filled}, {{"axis", axes[0]}}));
  return call.result("Where", {empty, zero, y});
}

Status prelu(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId slope, call.value(1));
  LT_ASSIGN(const ValueId zero, constant(call, 0, "zero"));
  LT_ASSIGN(const ValueId above, call.emit("Greater", {x, zero}));
  LT_ASSIGN(const ValueId sloped, call.emit("Mul", {slope, x}));
  return call.result("Where", {above, x, sloped});
}

// x + bias below -lambd, x - bias above lambd, 0 between.
Status shrink(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  const double limit = real_attr(call.node(), "lambd", 0.5),
               bias = real_attr(call.node(), "bias", 0);
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId zero, constant(call, 0, "zero"));
  LT_ASSIGN(const ValueId most, constant(call, limit, "most"));
  LT_ASSIGN(const ValueId least, constant(call, -limit, "least"));
  LT_ASSIGN(const ValueId above, call.emit("Greater", {x, most}));
  LT_ASSIGN(const ValueId below, call.emit("Less", {x, least}));
  LT_ASSIGN(const ValueId smaller, scaled(call, x, 1, -bias));
  LT_ASSIGN(const ValueId larger, scaled(call, x, 1, bias));
  LT_ASSIGN(const ValueId right, call.emit("Where", {above, smaller, zero}));
  return call.result("Where", {below, larger, right});
}

Status is_infinite(NodeCall& call) {
  LT_RETURN_IF_ERROR(only_floats(call));
  const bool positive = int_attr(call.node(), "detect_positive", 1) != 0,
             negative = int_attr(call.node(), "detect_negative", 1) != 0;
  if (!positive && !negative) {
    HostValue nothing;
    nothing.dtype = DType::kBool;
    nothing.dims = call.dims(0);
    nothing.form = HostValue::Form::kIndexed;
    nothing.cell = {flat(0, nothing.dims.size()), 0, 0, truth(false, nothing.dims.size())};
    call.set_host(0, std::move(nothing));
    return {};
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  LT_ASSIGN(ValueId x, call.value(0));
  if (positive && negative) {
    LT_ASSIGN(x, call.emit("Abs", {x}));
  }
  LT_ASSIGN(const ValueId limit, constant(call, positive ? kInfinity : -kInfinity, "infinity"));
  return call.result("Equal", {x, limit});
}

constexpr std::array kActivationRows = {ConvertRow{"SafeSoftmax", 1, safe_softmax},
                                        ConvertRow{"Selu", 1, selu},
                                        ConvertRow{"Celu", 1, celu},
                                        ConvertRow{"PRelu", 2, prelu},
                                        ConvertRow{"Shrink", 1, shrink},
                                        ConvertRow{"IsInf", 1, is_infinite}};

}  // namespace

std::span<const ConvertRow> activation_conversions() {
  return kActivationRows;
}

}  // namespace lowtide::io
