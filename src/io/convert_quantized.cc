// Quantised numbers: a real number r is stored as the integer q = round(r / scale) + zero point.
//
// Everything is written out in ops of the table, in the order and precision of the ONNX
// specification: division (in the type of the scale, which may have 16 bits) before rounding to
// even; from there on zero points and saturation in f32, which holds every 16-bit integer and its
// sum with a ratio that is not saturated exactly, as floats of 16 bits do not; products of integers
// exactly. A product of 8-bit operands with at most kExactTerms terms is computed in f32, whose 24
// bits hold every partial sum; longer ones in i32 (matrix products) or f64 (convolutions).
//
// Training: what one op stored and a DequantizeLinear reads is handed over as the float that it was
// before the last cast, the same number, through which gradients flow as in PyTorch's
// fake_quantize: rounding passes them straight on, saturation stops them. Through what reads the
// stored integers otherwise (products of integers, a Cast) nothing is trained.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "io/convert.h"
#include "io/convert_window.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// 2^24 / 255^2: so many products of 8-bit numbers add up below what f32 holds exactly.
constexpr int64_t kExactTerms = 258;

struct Range {
  double low, high;
};

Result<Range> range_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return Range{0, 255};
    case DType::kI8:
      return Range{-128, 127};
    case DType::kU16:
      return Range{0, 65535};
    case DType::kI16:
      return Range{-32768, 32767};
    default:
      return error(ErrorCode::kInput, fmt::format("quantised numbers of type {}; u8, i8, u16 and "
                                                  "i16 are taken",
                                                  lowtide::name(dtype)));
  }
}

// A scale or zero point (input i) as it stands beside x: one number, one for each place along an
// axis, or one for each block of places along it.
Result<ValueId> beside(NodeCall& call, size_t i, const ir::Dims& dims) {
  LT_ASSIGN(const ValueId given, call.value(i));
  const ir::Dims own = call.of(given).dims;
  if (own.empty()) return given;
  if (own.size() == 1 && own[0] == Expr(1))  // for all of x, whatever the axis says
    return call.emit("Reshape", {given}, {{"shape", list(std::vector<Expr>{})}});
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 1), dims.size()));
  const int64_t block = int_attr(call.node(), "block_size", 0);
  if (block == 0) {
    if (own.size() != 1)
      return error(ErrorCode::kInput,
                   fmt::format("input {} has rank {} without a block_size", i, own.size()));
    std::vector<Expr> along_axis(dims.size(), Expr(1));
    along_axis[axis] = own[0];
    return call.emit("Reshape", {given}, {{"shape", list(std::move(along_axis))}});
  }
  if (own.size() != dims.size())
    return error(ErrorCode::kInput, fmt::format("input {} has rank {} beside {} with blocks", i,
                                                own.size(), dims.size()));
  std::vector<Expr> apart(own.begin(), own.end()), repeated, joined(own.begin(), own.end());
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, Expr(1));
  repeated = apart;
  repeated[axis + 1] = Expr(block);
  joined[axis] = own[axis] * Expr(block);
  LT_ASSIGN(ValueId y, call.emit("Reshape", {given}, {{"shape", list(std::move(apart))}}));
  LT_ASSIGN(y, call.emit("Expand", {y}, {{"shape", list(std::move(repeated))}}));
  LT_ASSIGN(y, call.emit("Reshape", {y}, {{"shape", list(joined)}}));
  if (joined[axis] == dims[axis]) return y;
  // The last block is cut short.
  std::vector<Expr> starts(dims.size(), Expr(0)), sizes(joined);
  sizes[axis] = dims[axis];
  return call.emit("Slice", {y},
                   {{"starts", list(std::move(starts))},
                    {"sizes", list(std::move(sizes))},
                    {"steps", list(std::vector<int64_t>(dims.size(), 1))}});
}

// saturate(round(x) + zero) in the type `to`; x is a float of any type, zero of 8 or 16 bits or a
// float, or absent.
Status stored(NodeCall& call, ValueId x, ValueId zero, DType to, size_t output = 0) {
  LT_ASSIGN(const Range range, range_of(to));
  LT_ASSIGN(ValueId y, call.as_type(x, DType::kF32));
  ir::Attrs rounding;
  if (call.training()) rounding["straight"] = int64_t{1};
  LT_ASSIGN(y, call.emit("Round", {y}, std::move(rounding)));
  if (zero.valid()) {
    LT_ASSIGN(zero, call.as_type(zero, DType::kF32));
    LT_ASSIGN(y, call.emit("Add", {y, zero}));
  }
  LT_ASSIGN(y, call.emit("Clip", {y}, {{"min", range.low}, {"max", range.high}}));
  LT_ASSIGN(const ValueId q,
            call.result_at(output, "Cast", {y}, {{"to", word(lowtide::name(to))}}));
  call.remember_real(q, y);
  return {};
}

// The type in which a QuantizeLinear divides.
Result<DType> precision_of(NodeCall& call) {
  const auto code = static_cast<int32_t>(int_attr(call.node(), "precision", 0));
  if (code == 0) return call.dtype(1);
  const auto asked = onnx_dtype(code);
  if (asked && is_float(*asked)) return *asked;
  return error(ErrorCode::kInput,
               fmt::format("a precision of {}; only floats are taken", onnx_type_name(code)));
}

Status quantize(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(1));
  LT_ASSIGN(const DType precision, precision_of(call));
  LT_ASSIGN(ValueId x, call.value(0));
  const ir::Dims dims = call.dims(0);
  LT_ASSIGN(ValueId scale, beside(call, 1, dims));
  LT_ASSIGN(x, call.as_type(x, precision));
  LT_ASSIGN(scale, call.as_type(scale, precision));
  const auto asked = onnx_dtype(static_cast<int32_t>(int_attr(call.node(), "output_dtype", 0)));
  const DType to = call.has(2) ? call.dtype(2) : asked.value_or(DType::kU8);
  ValueId zero;
  if (call.has(2)) {
    LT_ASSIGN(zero, beside(call, 2, dims));
  }
  LT_ASSIGN(const ValueId ratio, call.emit("Div", {x, scale}));
  return stored(call, ratio, zero, to);
}

// (q - zero) * scale. Integers of 32 bits, which f32 does not hold, are subtracted as such.
Status dequantize(NodeCall& call) {
  LT_ASSIGN(ValueId x, call.value(0));
  const ir::Dims dims = call.dims(0);
  LT_ASSIGN(const ValueId scale, beside(call, 1, dims));
  const auto asked = onnx_dtype(static_cast<int32_t>(int_attr(call.node(), "output_dtype", 0)));
  const DType to = asked.value_or(call.of(scale).dtype);
  const DType exact = call.dtype(0) == DType::kI32 ? DType::kI32 : DType::kF32;
  if (const auto real = call.training() ? call.real_of(x) : std::nullopt) x = *real;
  LT_ASSIGN(x, call.as_type(x, exact));
  if (call.has(2)) {
    LT_ASSIGN(ValueId zero, beside(call, 2, dims));
    LT_ASSIGN(zero, call.as_type(zero, exact));
    LT_ASSIGN(x, call.emit("Sub", {x, zero}));
  }
  LT_ASSIGN(x, call.as_type(x, DType::kF32));
  LT_ASSIGN(const ValueId wide_scale, call.as_type(scale, DType::kF32));
  if (to == DType::kF32) return call.result("Mul", {x, wide_scale});
  LT_ASSIGN(x, call.emit("Mul", {x, wide_scale}));
  return call.result("Cast", {x}, {{"to", word(lowtide::name(to))}});
}

// u8 with a scale and zero point that the data decides: its range, with 0 in it.
Status dynamic_quantize(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  std::vector<int64_t> axes(call.dims(0).size());
  for (size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<int64_t>(d);
  const ir::Attrs all = {{"axes", list(axes)}, {"keepdims", int64_t{0}}};
  LT_ASSIGN(const ValueId none, call.inline_number(0, DType::kF32, "none"));
  LT_ASSIGN(ValueId high, call.emit("ReduceMax", {x}, all));
  LT_ASSIGN(high, call.emit("Max", {high, none}));
  LT_ASSIGN(ValueId low, call.emit("Neg", {x}));
  LT_ASSIGN(low, call.emit("ReduceMax", {low}, all));
  LT_ASSIGN(low, call.emit("Neg", {low}));
  LT_ASSIGN(low, call.emit("Min", {low, none}));
  LT_ASSIGN(const ValueId width, call.emit("Sub", {high, low}));
  LT_ASSIGN(const ValueId steps, call.inline_number(255, DType::kF32, "steps"));
  LT_ASSIGN(const ValueId one, call.inline_number(1, DType::kF32, "one"));
  LT_ASSIGN(const ValueId step, call.emit("Div", {width, steps}));
  LT_ASSIGN(const ValueId empty, call.emit("Equal", {width, none}));
  LT_ASSIGN(const ValueId scale, call.result_at(1, "Where", {empty, one, step}));
  LT_ASSIGN(ValueId zero, call.emit("Neg", {low}));
  LT_ASSIGN(zero, call.emit("Div", {zero, scale}));
  LT_ASSIGN(zero, call.emit("Clip", {zero}, {{"min", 0.0}, {"max", 255.0}}));
  LT_ASSIGN(zero, call.emit("Round", {zero}));
  LT_RETURN_IF_ERROR(call.result_at(2, "Cast", {zero}, {{"to", word("u8")}}).map([](ValueId) {}));
  LT_ASSIGN(const ValueId ratio, call.emit("Div", {x, scale}));
  return stored(call, ratio, zero, DType::kU8);
}

// ---- products ----

// Operand i less its zero point (input z), as numbers of `type`. A zero point for each row or
// column is given its place by `dims`.
Result<ValueId> centred(NodeCall& call, size_t i, size_t z, DType type,
                        const std::vector<Expr>& dims) {
  LT_RETURN_IF_ERROR(range_of(call.dtype(i)).map([](Range) {}));
  LT_ASSIGN(ValueId x, call.value(i));
  LT_ASSIGN(x, call.as_type(x, type));
  if (!call.has(z)) return x;
  LT_ASSIGN(ValueId zero, call.value(z));
  LT_ASSIGN(zero, call.as_type(zero, type));
  const ir::Dims own = call.of(zero).dims;
  const bool single = own.empty() || (own.size() == 1 && own[0] == Expr(1));
  if (own.size() == 1) {
    LT_ASSIGN(zero,
              call.emit("Reshape", {zero}, {{"shape", list(single ? std::vector<Expr>{} : dims)}}));
  }
  return call.emit("Sub", {x, zero});
}

// The inputs of a product: data, weights, and their zero points.
struct Places {
  size_t data, weights, data_zero, weights_zero;
};

Result<ValueId> integer_matmul(NodeCall& call, const Places& at) {
  const ir::Dims a = call.dims(at.data), b = call.dims(at.weights);
  if (a.size() < 2 || b.size() < 2)
    return error(
        ErrorCode::kInput,
        fmt::format("operands of rank {} and {}; both must be at least 2", a.size(), b.size()));
  const auto terms = a.back().constant();
  const bool narrow =
      size_bytes(call.dtype(at.data)) == 1 && size_bytes(call.dtype(at.weights)) == 1;
  const DType type = narrow && terms && *terms <= kExactTerms ? DType::kF32 : DType::kI32;
  LT_ASSIGN(const ValueId left,
            centred(call, at.data, at.data_zero, type, {a[a.size() - 2], Expr(1)}));
  LT_ASSIGN(const ValueId right,
            centred(call, at.weights, at.weights_zero, type, {Expr(1), b.back()}));
  LT_ASSIGN(const ValueId y, call.emit("MatMul", {left, right}));
  return call.as_type(y, DType::kI32);
}

Result<ValueId> integer_conv(NodeCall& call, const Places& at) {
  LT_ASSIGN(ir::Attrs attrs, conv_attrs(call, at.weights));
  const ir::Dims weights = call.dims(at.weights);
  int64_t terms = 1;
  for (size_t d = 1; d < weights.size(); ++d)
    terms = std::min(terms * weights[d].constant().value_or(kExactTerms + 1), kExactTerms + 1);
  const DType type = terms <= kExactTerms ? DType::kF32 : DType::kF64;
  std::vector<Expr> per_feature(weights.size(), Expr(1));
  per_feature[0] = weights[0];
  LT_ASSIGN(const ValueId x, centred(call, at.data, at.data_zero, type, {}));
  LT_ASSIGN(const ValueId w, centred(call, at.weights, at.weights_zero, type, per_feature));
  LT_ASSIGN(const ValueId y, call.emit("Conv", {x, w}, std::move(attrs)));
  return call.as_type(y, DType::kI32);
}

Status matmul_integer(NodeCall& call) {
  LT_ASSIGN(const ValueId y, integer_matmul(call, {0, 1, 2, 3}));
  call.set(0, y);
  return {};
}

Status conv_integer(NodeCall& call) {
  LT_ASSIGN(const ValueId y, integer_conv(call, {0, 1, 2, 3}));
  call.set(0, y);
  return {};
}

// A scale (input i) in f32: one number, or one for each feature of the result.
Result<ValueId> scale_of(NodeCall& call, size_t i, std::vector<Expr> per_feature) {
  LT_ASSIGN(ValueId scale, call.value(i));
  LT_ASSIGN(scale, call.as_type(scale, DType::kF32));
  const ir::Dims own = call.of(scale).dims;
  if (own.empty()) return scale;
  const bool single = own.size() == 1 && own[0] == Expr(1);
  if (own.size() != 1) return scale;
  return call.emit("Reshape", {scale},
                   {{"shape", list(single ? std::vector<Expr>{} : std::move(per_feature))}});
}

// The integers y of a product, at scale x_scale * w_scale, stored at the scale and zero point of
// inputs 6 and 7.
Status requantize(NodeCall& call, ValueId y, const std::vector<Expr>& per_feature) {
  LT_ASSIGN(const ValueId a, scale_of(call, 1, {call.dims(0).end()[-2], Expr(1)}));
  LT_ASSIGN(const ValueId b, scale_of(call, 4, per_feature));
  LT_ASSIGN(const ValueId c, scale_of(call, 6, per_feature));
  LT_ASSIGN(ValueId ratio, call.emit("Mul", {a, b}));
  LT_ASSIGN(ratio, call.emit("Div", {ratio, c}));
  LT_ASSIGN(y, call.as_type(y, DType::kF32));
  LT_ASSIGN(y, call.emit("Mul", {y, ratio}));
  LT_ASSIGN(const ValueId zero, call.value(7));
  return stored(call, y, zero, call.dtype(7));
}

Status qlinear_matmul(NodeCall& call) {
  LT_ASSIGN(const ValueId y, integer_matmul(call, {0, 3, 2, 5}));
  return requantize(call, y, {Expr(1), call.dims(3).back()});
}

Status qlinear_conv(NodeCall& call) {
  LT_ASSIGN(ValueId y, integer_conv(call, {0, 3, 2, 5}));
  std::vector<Expr> per_feature(call.dims(0).size() - 1, Expr(1));
  per_feature[0] = call.dims(3)[0];
  if (call.has(8)) {
    LT_ASSIGN(ValueId bias, call.value(8));
    LT_ASSIGN(bias, call.emit("Reshape", {bias}, {{"shape", list(per_feature)}}));
    LT_ASSIGN(y, call.emit("Add", {y, bias}));
  }
  return requantize(call, y, per_feature);
}

constexpr ConvertRow kQuantizedRows[] = {
    {"QuantizeLinear", 2, quantize},
    {"DequantizeLinear", 2, dequantize},
    {"DynamicQuantizeLinear", 1, dynamic_quantize},
    {"MatMulInteger", 2, matmul_integer},
    {"ConvInteger", 2, conv_integer},
    {"QLinearMatMul", 8, qlinear_matmul},
    {"QLinearConv", 8, qlinear_conv},
};

}  // namespace

std::span<const ConvertRow> quantized_conversions() {
  return kQuantizedRows;
}

}  // namespace lowtide::io
