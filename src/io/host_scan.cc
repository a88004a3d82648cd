// Ops that run over a dimension or look at positions in it, on host values: running sums,
// triangles, reductions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using sym::Expr;
using Form = HostValue::Form;

HostResult fold_cum_sum(const HostCall& call) {
  const HostValue& x = call.in(0);
  LT_ASSIGN(const std::vector<int64_t> axis_value, host_constants(call.in(1)));
  if (axis_value.size() != 1) return error(ErrorCode::kInput, "CumSum takes one axis");
  LT_ASSIGN(const size_t axis, normal_axis(axis_value[0], x.dims.size()));
  const bool exclusive = int_attr(call.node, "exclusive", 0) != 0,
             reverse = int_attr(call.node, "reverse", 0) != 0;
  if (x.form == Form::kIndexed && !is_float(x.dtype) && x.cell.integer.is_flat() && !reverse) {
    HostValue result = x;  // c, c, c, ... sums to c * (i + 1)
    const Expr step = x.cell.integer.base;
    result.cell.integer = scaled(along(axis, x.dims.size()), step);
    result.cell.integer.base = exclusive ? Expr(0) : step;
    if (fits(result.dtype, result.cell.integer, result.dims)) return single(std::move(result));
  }
  LT_ASSIGN(HostValue result, densify(x));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  size_t outer = 1, inner = 1;
  const size_t extent = static_cast<size_t>(extents[axis]);
  for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(extents[d]);
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; ++i) {
      double real = 0;
      Expr integer = 0;
      for (size_t k = 0; k < extent; ++k) {
        const size_t place = (o * extent + (reverse ? extent - 1 - k : k)) * inner + i;
        if (is_float(result.dtype)) {
          const double next = round_to(result.dtype, real + result.reals[place]);
          result.reals[place] = exclusive ? real : next;
          real = next;
        } else {
          const Expr next = wrap_to(result.dtype, integer + result.ints[place]);
          result.ints[place] = exclusive ? integer : next;
          integer = next;
        }
      }
    }
  }
  return single(std::move(result));
}

HostResult fold_trilu(const HostCall& call) {
  const HostValue& x = call.in(0);
  const size_t rank = x.dims.size();
  if (rank < 2) return error(ErrorCode::kInput, fmt::format("Trilu of rank {}", rank));
  const bool upper = int_attr(call.node, "upper", 1) != 0;
  Expr k = 0;
  if (call.has(1)) {
    LT_ASSIGN(const std::vector<Expr> value, host_ints(call.in(1)));
    if (value.size() == 1) k = value[0];
  }
  // column - row - k >= 0 is the upper part.
  Affine inside = along(rank - 1, rank) - along(rank - 2, rank);
  inside.base = -k;
  if (!upper) inside = scaled(inside, -1);
  if (x.form == Form::kIndexed &&
      (x.dtype == DType::kBool ||
       (is_float(x.dtype) && (x.cell.conditions.empty() || x.cell.otherwise == 0)))) {
    HostValue result = x;
    result.cell.conditions.push_back(inside);
    result.cell.otherwise = 0;
    return single(std::move(result));
  }
  LT_ASSIGN(HostValue result, densify(x));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(result.dims));
  std::vector<int64_t> index(rank);
  const size_t count = std::max(result.ints.size(), result.reals.size());
  for (size_t i = 0; i < count; ++i, next_index(index, extents)) {
    const Expr side = at(inside, index);
    if (!side.constant()) return error(ErrorCode::kInput, needs_number(side));
    if (*side.constant() >= 0) continue;
    if (is_float(result.dtype))
      result.reals[i] = 0;
    else
      result.ints[i] = 0;
  }
  return single(std::move(result));
}

// The places of what is not 0, a column for each.
HostResult fold_non_zero(const HostCall& call) {
  LT_ASSIGN(const HostValue x, densify(call.in(0)));
  LT_ASSIGN(const std::vector<double> elements, host_reals(x));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(x.dims));
  std::vector<std::vector<int64_t>> found;
  std::vector<int64_t> index(extents.size());
  for (const double element : elements) {
    if (element != 0) found.push_back(index);
    next_index(index, extents);
  }
  HostValue places;
  places.dims = {Expr(static_cast<int64_t>(extents.size())),
                 Expr(static_cast<int64_t>(found.size()))};
  for (size_t d = 0; d < extents.size(); ++d)
    for (const std::vector<int64_t>& place : found) places.ints.emplace_back(place[d]);
  return single(std::move(places));
}

enum class Reduction : uint8_t { kSum, kProduct, kMax, kMin, kMean };

double combine(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMax:
      return std::max(a, b);
    case Reduction::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

Expr combine(Reduction reduction, const Expr& a, const Expr& b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMax:
      return sym::max(a, b);
    case Reduction::kMin:
      return sym::min(a, b);
    default:
      return a + b;
  }
}

// A mean of integers is cut towards zero.
Result<Expr> finished(Reduction reduction, const Expr& total, int64_t count) {
  if (reduction != Reduction::kMean) return total;
  if (!total.constant()) return error(ErrorCode::kInput, needs_number(total));
  return Expr(*total.constant() / count);
}

template <Reduction reduction>
HostResult fold_reduce(const HostCall& call) {
  LT_ASSIGN(const HostValue x, densify(call.in(0)));
  const size_t rank = x.dims.size();
  LT_ASSIGN(const auto given, axes_of(call, 1, rank));
  std::vector<bool> reduced(rank, !given || given->empty());
  if ((!given || given->empty()) && int_attr(call.node, "noop_with_empty_axes", 0) != 0)
    return single(x);
  if (given)
    for (size_t d : *given) reduced[d] = true;
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(x.dims));
  ir::Dims wide = x.dims, dims;
  int64_t merged = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (reduced[d]) merged *= extents[d], wide[d] = 1;
    if (!reduced[d] || int_attr(call.node, "keepdims", 1) != 0) dims.push_back(wide[d]);
  }
  if (merged == 0) return error(ErrorCode::kInput, "a reduction over no elements is not folded");
  LT_ASSIGN(const std::vector<int64_t> kept, constant_dims(wide));
  const size_t count = static_cast<size_t>(*constant_count(wide));
  HostValue result;
  result.dtype = x.dtype;
  result.dims = std::move(dims);
  std::vector<std::optional<double>> reals(count);
  std::vector<std::optional<Expr>> ints(count);
  std::vector<int64_t> index(rank);
  for (size_t i = 0; i < std::max(x.ints.size(), x.reals.size()); ++i, next_index(index, extents)) {
    size_t place = 0;
    for (size_t d = 0; d < rank; ++d)
      place = place * static_cast<size_t>(kept[d]) + static_cast<size_t>(reduced[d] ? 0 : index[d]);
    if (is_float(x.dtype))
      reals[place] = reals[place] ? combine(reduction, *reals[place], x.reals[i]) : x.reals[i];
    else
      ints[place] = ints[place] ? combine(reduction, *ints[place], x.ints[i]) : x.ints[i];
  }
  for (size_t i = 0; i < count; ++i) {
    if (is_float(x.dtype)) {
      const double mean = reduction == Reduction::kMean ? static_cast<double>(merged) : 1.0;
      result.reals.push_back(round_to(x.dtype, *reals[i] / mean));
    } else {
      LT_ASSIGN(Expr whole, finished(reduction, *ints[i], merged));
      result.ints.push_back(wrap_to(x.dtype, whole));
    }
  }
  return single(std::move(result));
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), with n one less where the window is symmetric. The
// coefficients are those of the specification's function bodies.
HostResult window(const HostCall& call, double a0, double a1, double a2) {
  LT_ASSIGN(const std::vector<int64_t> size, host_constants(call.in(0)));
  const auto to = onnx_dtype(static_cast<int32_t>(int_attr(call.node, "output_datatype", 1)));
  if (size.size() != 1 || size[0] < 0 || size[0] > kMaxHostElements || !to || !is_float(*to))
    return error(ErrorCode::kInput, "a window of no known size, or not of floats");
  constexpr double kPi = 3.14159265358979323846;
  const bool periodic = int_attr(call.node, "periodic", 1) != 0;
  const double n = static_cast<double>(periodic ? size[0] : size[0] - 1);
  HostValue result;
  result.dtype = *to;
  result.dims = {Expr(size[0])};
  for (int64_t i = 0; i < size[0]; ++i) {
    const double angle = 2 * kPi * static_cast<double>(i) / n;
    result.reals.push_back(
        round_to(*to, a0 - a1 * std::cos(angle) + (a2 == 0 ? 0 : a2 * std::cos(2 * angle))));
  }
  return single(std::move(result));
}

HostResult fold_hann(const HostCall& call) {
  return window(call, 0.5, 0.5, 0);
}
HostResult fold_hamming(const HostCall& call) {
  return window(call, 25.0 / 46, 1 - 25.0 / 46, 0);
}
HostResult fold_blackman(const HostCall& call) {
  return window(call, 0.42, 0.5, 0.08);
}

constexpr HostRow kHostScanRows[] = {
    {"HannWindow", "i", fold_hann},
    {"HammingWindow", "i", fold_hamming},
    {"BlackmanWindow", "i", fold_blackman},
    {"CumSum", "n i", fold_cum_sum},
    {"NonZero", "*", fold_non_zero},
    {"Trilu", "* i?", fold_trilu},
    {"ReduceSum", "n i?", fold_reduce<Reduction::kSum>},
    {"ReduceProd", "n i?", fold_reduce<Reduction::kProduct>},
    {"ReduceMax", "* i?", fold_reduce<Reduction::kMax>},
    {"ReduceMin", "* i?", fold_reduce<Reduction::kMin>},
    {"ReduceMean", "n i?", fold_reduce<Reduction::kMean>},
};

}  // namespace

std::span<const HostRow> host_scan_rows() {
  return kHostScanRows;
}

}  // namespace lowtide::io
