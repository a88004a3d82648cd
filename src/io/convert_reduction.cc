// Reductions. Axes are an attribute in old opsets and an input in new ones (opset 13 for sums, 18
// for the rest); both are read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// Attributes of the reduction op; none when the node changes nothing (no axes,
// noop_with_empty_axes).
Result<std::optional<ir::Attrs>> reduction_attrs(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  std::vector<int64_t> axes = ints_attr(call.node(), "axes").value_or(std::vector<int64_t>());
  if (call.has(1)) {
    LT_ASSIGN(axes, call.integers(1));
  }
  if (axes.empty() && int_attr(call.node(), "noop_with_empty_axes", 0) != 0)
    return std::optional<ir::Attrs>();
  if (axes.empty())
    for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  LT_ASSIGN(std::vector<size_t> normal, normal_axes(axes, rank));
  std::sort(normal.begin(), normal.end());
  std::vector<int64_t> sorted(normal.begin(), normal.end());
  return std::optional(ir::Attrs{{"axes", list(sorted)},
                                 {"keepdims", int64_t{int_attr(call.node(), "keepdims", 1) != 0}}});
}

using Step = Result<ValueId> (*)(NodeCall&, ValueId);

Result<ValueId> nothing(NodeCall&, ValueId x) {
  return x;
}
Result<ValueId> square(NodeCall& call, ValueId x) {
  return call.emit("Mul", {x, x});
}
Result<ValueId> magnitude(NodeCall& call, ValueId x) {
  return call.emit("Abs", {x});
}

// What the reduction of no elements is: the neutral element, as far as the type can hold it. Error:
// a Fill's number cannot say it (the greatest integer of 64 bits).
Result<double> of_nothing(std::string_view kind, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (kind == "ReduceMean") return std::numeric_limits<double>::quiet_NaN();
  if (kind == "ReduceProd") return 1;
  if (kind == "ReduceLogSumExp") return -kInfinity;
  if (kind != "ReduceMax" && kind != "ReduceMin") return 0;
  const bool least = kind == "ReduceMax";
  if (is_float(dtype)) return least ? -kInfinity : kInfinity;
  if (dtype == DType::kBool) return least ? 0 : 1;
  const bool is_signed = !is_unsigned(dtype);
  const int bits = static_cast<int>(8 * size_bytes(dtype)) - (is_signed ? 1 : 0);
  if (least) return is_signed ? -std::ldexp(1.0, bits) : 0;
  if (bits > 53)
    return error(ErrorCode::kInput, fmt::format("the minimum of no {}", lowtide::name(dtype)));
  return std::ldexp(1.0, bits) - 1;
}

// The dims of a reduction that has no elements to reduce; none where it has some, or may have.
std::optional<ir::Dims> dims_of_nothing(const ir::Dims& from, const ir::Attrs& attrs) {
  const auto& axes = std::get<ir::Dims>(attrs.at("axes"));
  const bool keep = std::get<int64_t>(attrs.at("keepdims")) != 0;
  ir::Dims dims;
  bool nothing = false;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool reduced =
        std::find(axes.begin(), axes.end(), Expr(static_cast<int64_t>(d))) != axes.end();
    nothing |= reduced && from[d] == Expr(0);
    if (!reduced || keep) dims.push_back(reduced ? Expr(1) : from[d]);
  }
  return nothing ? std::optional(dims) : std::nullopt;
}

// before, then the reduction, then `after` (an op of floats without attributes, or none).
Status reduce(NodeCall& call, Step before, std::string_view kind, std::string_view after) {
  if (!after.empty()) LT_RETURN_IF_ERROR(call.check_floats(0));
  const DType type = call.dtype(0);
  LT_ASSIGN(const auto attrs, reduction_attrs(call));
  if (const auto empty = attrs ? dims_of_nothing(call.dims(0), *attrs) : std::nullopt) {
    LT_ASSIGN(const double neutral, of_nothing(kind, type));
    const ir::Attrs fill = {
        {"shape", list(*empty)}, {"value", neutral}, {"dtype", word(lowtide::name(type))}};
    if (after.empty()) return call.result("Fill", {}, fill);
    LT_ASSIGN(const ValueId filled, call.emit("Fill", {}, fill));
    return call.result(after, {filled});
  }
  const bool alone = before == nothing && after.empty();
  if (!attrs && alone) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(ValueId x, call.value(0));
  if (alone) return call.result(kind, {x}, *attrs);
  LT_ASSIGN(x, call.wide(x));
  LT_ASSIGN(x, before(call, x));
  if (!attrs) return call.result_as(type, after.empty() ? "Copy" : after, {x});
  if (after.empty()) return call.result_as(type, kind, {x}, *attrs);
  LT_ASSIGN(x, call.emit(kind, {x}, *attrs));
  ir::Attrs last;
  if (after == "Sqrt") last["norm"] = int64_t{1};
  return call.result_as(type, after, {x}, std::move(last));
}

Status reduce_sum(NodeCall& call) {
  return reduce(call, nothing, "ReduceSum", "");
}
Status reduce_mean(NodeCall& call) {
  return reduce(call, nothing, "ReduceMean", "");
}
Status reduce_max(NodeCall& call) {
  return reduce(call, nothing, "ReduceMax", "");
}
Status reduce_min(NodeCall& call) {
  return reduce(call, nothing, "ReduceMin", "");
}
Status reduce_prod(NodeCall& call) {
  return reduce(call, nothing, "ReduceProd", "");
}
Status reduce_l1(NodeCall& call) {
  return reduce(call, magnitude, "ReduceSum", "");
}
Status reduce_l2(NodeCall& call) {
  return reduce(call, square, "ReduceSum", "Sqrt");
}
Status reduce_sum_square(NodeCall& call) {
  return reduce(call, square, "ReduceSum", "");
}
Status reduce_log_sum(NodeCall& call) {
  return reduce(call, nothing, "ReduceSum", "Log");
}
Status reduce_log_sum_exp(NodeCall& call) {
  return reduce(call, nothing, "ReduceLogSumExp", "");
}

constexpr ConvertRow kReductionRows[] = {
    {"ReduceSum", 1, reduce_sum},        {"ReduceMean", 1, reduce_mean},
    {"ReduceMax", 1, reduce_max},        {"ReduceMin", 1, reduce_min},
    {"ReduceProd", 1, reduce_prod},      {"ReduceL1", 1, reduce_l1},
    {"ReduceL2", 1, reduce_l2},          {"ReduceSumSquare", 1, reduce_sum_square},
    {"ReduceLogSum", 1, reduce_log_sum}, {"ReduceLogSumExp", 1, reduce_log_sum_exp},
};

}  // namespace

std::span<const ConvertRow> reduction_conversions() {
  return kReductionRows;
}

}  // namespace lowtide::io
