// The bitwise ops on host values, element by element: what they do to a size that is still a symbol
// has no closed form. Numbers are kept in signed 64 bits, so a u64 that comes to have its highest
// bit is not folded.
#include <fmt/format.h>

#include "base/element.h"
#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using sym::Expr;

enum class BitOp : uint8_t { kAnd, kOr, kXor, kLeft, kRight };

// A shift by as many places as the type has bits leaves none.
int64_t apply_bits(BitOp op, int64_t a, int64_t b, int64_t width) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (op == BitOp::kAnd) return a & b;
  if (op == BitOp::kOr) return a | b;
  if (op == BitOp::kXor) return a ^ b;
  if (y >= static_cast<uint64_t>(width)) return 0;
  return static_cast<int64_t>(op == BitOp::kLeft ? x << y : x >> y);
}

Result<Expr> kept_bits(DType dtype, int64_t bits) {
  if (dtype == DType::kU64 && bits < 0)
    return error(ErrorCode::kInput, "a u64 of 64 bits is not folded");
  return Expr(wrapped(dtype, bits));
}

HostResult fold_two(const HostCall& call, BitOp op) {
  const HostValue &a = call.in(0), &b = call.in(1);
  if (!is_integer(a.dtype) || a.dtype != b.dtype)
    return error(ErrorCode::kInput, "operands that are not of one integer type");
  HostValue result;
  result.dtype = a.dtype;
  LT_ASSIGN(result.dims, broadcast(a.dims, b.dims));
  const size_t rank = result.dims.size();
  LT_ASSIGN(const HostValue left, remap(a, result.dims, broadcast_map(a.dims, rank)));
  LT_ASSIGN(const HostValue right, remap(b, result.dims, broadcast_map(b.dims, rank)));
  LT_ASSIGN(const std::vector<int64_t> x, host_constants(left));
  LT_ASSIGN(const std::vector<int64_t> y, host_constants(right));
  for (size_t i = 0; i < x.size(); ++i) {
    LT_ASSIGN(Expr value, kept_bits(a.dtype, apply_bits(op, x[i], y[i], 8 * size_bytes(a.dtype))));
    result.ints.push_back(std::move(value));
  }
  return std::vector<HostValue>{std::move(result)};
}

template <BitOp op>
HostResult fold_bits(const HostCall& call) {
  return fold_two(call, op);
}

HostResult fold_shift(const HostCall& call) {
  const std::string direction = word_attr(call.node, "direction", "");
  if (!is_unsigned(call.in(0).dtype) || (direction != "LEFT" && direction != "RIGHT"))
    return error(ErrorCode::kInput, "not a shift of unsigned integers to the LEFT or RIGHT");
  return fold_two(call, direction == "LEFT" ? BitOp::kLeft : BitOp::kRight);
}

HostResult fold_bitwise_not(const HostCall& call) {
  if (!is_integer(call.in(0).dtype)) return error(ErrorCode::kInput, "not integers");
  LT_ASSIGN(HostValue value, densify(call.in(0)));
  LT_ASSIGN(const std::vector<int64_t> bits, host_constants(value));
  for (size_t i = 0; i < bits.size(); ++i) {
    LT_ASSIGN(value.ints[i], kept_bits(value.dtype, ~bits[i]));
  }
  return std::vector<HostValue>{std::move(value)};
}

constexpr HostRow kBitRows[] = {{"BitwiseAnd", "i i", fold_bits<BitOp::kAnd>},
                                {"BitwiseOr", "i i", fold_bits<BitOp::kOr>},
                                {"BitwiseXor", "i i", fold_bits<BitOp::kXor>},
                                {"BitwiseNot", "i", fold_bitwise_not},
                                {"BitShift", "i i", fold_shift}};

}  // namespace

std::span<const HostRow> host_bits_rows() {
  return kBitRows;
}

}  // namespace lowtide::io
