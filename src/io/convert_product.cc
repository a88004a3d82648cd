// Matrix products. A transposition of the last two dims that feeds one becomes its attribute; a
// following addition of a vector that only this product feeds becomes its bias; operands of rank 1
// get their extent of 1 by a view.
#include <fmt/format.h>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// An operand as MatMul reads it.
struct Operand {
  ValueId value;
  bool transposed = false;
};

bool swaps_last_two(const std::vector<size_t>& perm) {
  const size_t rank = perm.size();
  if (rank < 2 || perm[rank - 1] != rank - 2 || perm[rank - 2] != rank - 1) return false;
  for (size_t d = 0; d + 2 < rank; ++d)
    if (perm[d] != d) return false;
  return true;
}

Result<Operand> operand(NodeCall& call, size_t i) {
  const auto pending = call.pending_transpose(i);
  if (pending && swaps_last_two(pending->second)) return Operand{pending->first, true};
  LT_ASSIGN(const ValueId value, call.value(i));
  return Operand{value, false};
}

// The bias behind this product: the vector of `extent` elements that its only reader, an Add, adds.
// The Add is absorbed.
Result<ValueId> following_bias(NodeCall& call, const Expr& extent) {
  const auto reader = call.sole_reader("Add");
  if (!reader) return ValueId::none();
  NodeCall add = call.at(*reader);
  if (add.inputs() != 2) return ValueId::none();
  const size_t own = add.node().inputs[0] == call.node().outputs[0] ? 0 : 1;
  if (add.node().inputs[1 - own] == call.node().outputs[0]) return ValueId::none();
  if (!add.is_parameter(1 - own) || !(add.dims(1 - own) == ir::Dims{extent}))
    return ValueId::none();
  LT_ASSIGN(const ValueId bias, add.value(1 - own));
  call.absorb(*reader);
  return bias;
}

Result<ValueId> as_view(NodeCall& call, ValueId x, ir::Dims dims) {
  return call.emit("Reshape", {x}, {{"shape", list(std::move(dims))}});
}

// With an operand of rank 1: [k] is [1 k] on the left and [k 1] on the right, and the extent of 1
// is dropped from the result.
Status vector_product(NodeCall& call) {
  LT_ASSIGN(ValueId a, call.value(0));
  LT_ASSIGN(ValueId b, call.value(1));
  const ir::Dims left = call.dims(0), right = call.dims(1);
  if (left.empty() || right.empty()) return error(ErrorCode::kInput, "an operand of rank 0");
  if (left.size() == 1) {
    LT_ASSIGN(a, as_view(call, a, {Expr(1), left[0]}));
  }
  if (right.size() == 1) {
    LT_ASSIGN(b, as_view(call, b, {right[0], Expr(1)}));
  }
  LT_ASSIGN(const ValueId c, call.emit("MatMul", {a, b}));
  ir::Dims dims = call.of(c).dims;
  if (right.size() == 1) dims.pop_back();
  if (left.size() == 1) dims.erase(dims.end() - (right.size() == 1 ? 1 : 2));
  return call.result("Reshape", {c}, {{"shape", list(std::move(dims))}});
}

Status mat_mul(NodeCall& call) {
  if (call.dims(0).size() < 2 || call.dims(1).size() < 2) return vector_product(call);
  LT_ASSIGN(const Operand a, operand(call, 0));
  LT_ASSIGN(const Operand b, operand(call, 1));
  LT_ASSIGN(const ValueId bias, following_bias(call, call.dims(1).back()));
  std::vector<ValueId> inputs = {a.value, b.value};
  if (bias.valid()) inputs.push_back(bias);
  ir::Attrs attrs;
  if (a.transposed) attrs["trans_a"] = int64_t{1};
  if (b.transposed) attrs["trans_b"] = int64_t{1};
  return call.result("MatMul", std::move(inputs), std::move(attrs));
}

Result<ValueId> scaled_by(NodeCall& call, ValueId x, double factor) {
  if (factor == 1.0) return x;
  return call.emit("AffineScalar", {x}, {{"scale", factor}, {"shift", 0.0}});
}

// alpha A B + beta C: C is the bias when it is a vector as wide as the result, else an addition of
// its own. A B of 16 bits that alpha scales is computed in f32: it may be larger than what it
// becomes.
Status gemm(NodeCall& call) {
  const double alpha = real_attr(call.node(), "alpha", 1.0),
               beta = real_attr(call.node(), "beta", 1.0);
  Operand operands[2];
  const char* names[] = {"transA", "transB"};
  Expr columns;
  for (size_t i = 0; i < 2; ++i) {
    if (call.dims(i).size() != 2)
      return error(ErrorCode::kInput,
                   fmt::format("operand {} has rank {}, not 2", i, call.dims(i).size()));
    LT_ASSIGN(operands[i], operand(call, i));
    const bool flag = int_attr(call.node(), names[i], 0) != 0;
    operands[i].transposed = operands[i].transposed != flag;
    columns = call.dims(i)[flag ? 0 : 1];
  }
  ir::Attrs attrs;
  if (operands[0].transposed) attrs["trans_a"] = int64_t{1};
  if (operands[1].transposed) attrs["trans_b"] = int64_t{1};
  const bool has_c = call.has(2) && beta != 0;
  const bool bias = has_c && alpha == 1.0 && beta == 1.0 && call.dims(2) == ir::Dims{columns};
  if (alpha != 1.0)
    for (Operand& each : operands) {
      LT_ASSIGN(each.value, call.wide(each.value));
    }
  std::vector<ValueId> inputs = {operands[0].value, operands[1].value};
  if (bias) {
    LT_ASSIGN(const ValueId c, call.value(2));
    inputs.push_back(c);
  }
  if (bias || (!has_c && alpha == 1.0))
    return call.result("MatMul", std::move(inputs), std::move(attrs));
  LT_ASSIGN(const ValueId product, call.emit("MatMul", std::move(inputs), std::move(attrs)));
  const DType type = call.dtype(0);
  const ir::Attrs by_alpha = {{"scale", alpha}, {"shift", 0.0}};
  if (!has_c) return call.result_as(type, "AffineScalar", {product}, by_alpha);
  LT_ASSIGN(const ValueId left, scaled_by(call, product, alpha));
  LT_ASSIGN(ValueId c, call.value(2));
  LT_ASSIGN(c, call.as_type(c, call.of(left).dtype));
  LT_ASSIGN(const ValueId right, scaled_by(call, c, beta));
  return call.result_as(type, "Add", {left, right});
}

constexpr ConvertRow kProductRows[] = {{"MatMul", 2, mat_mul}, {"Gemm", 2, gemm}};

}  // namespace

std::span<const ConvertRow> product_conversions() {
  return kProductRows;
}

}  // namespace lowtide::io
