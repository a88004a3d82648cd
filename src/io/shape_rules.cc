#include "io/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace lowtide::io {
namespace {

// total / known without remainder. Equal factors are cancelled as written, since a polynomial
// cannot be divided in general; what is left of `known` is usually a number, else the rest is a
// subset of the factors of total.
sym::Expr quotient(std::vector<sym::Expr> total, const std::vector<sym::Expr>& known) {
  std::vector<sym::Expr> left;
  for (const sym::Expr& factor : known) {
    const auto same = std::find(total.begin(), total.end(), factor);
    if (same != total.end())
      total.erase(same);
    else
      left.push_back(factor);
  }
  const sym::Expr divisor = product(left);
  if (divisor == sym::Expr(1)) return product(total);
  if (!divisor.is_constant() && total.size() <= 8) {
    for (uint32_t subset = 1; subset < (1U << total.size()); ++subset) {
      sym::Expr inside = 1, outside = 1;
      for (size_t d = 0; d < total.size(); ++d) {
        sym::Expr& side = (subset >> d & 1U) != 0 ? inside : outside;
        side = side * total[d];
      }
      if (inside == divisor) return outside;
    }
  }
  return sym::floordiv(product(total), divisor);
}

bool is(const sym::Expr& e, int64_t number) {
  return e.constant() == number;
}

// A Slice bound against its dim: negative numbers count from the end, numbers beyond the dim mean
// the dim.
sym::Expr clamp_bound(const sym::Expr& bound, const sym::Expr& dim, int64_t low,
                      const sym::Expr& high) {
  const auto number = bound.constant();
  if (number && *number <= std::numeric_limits<int64_t>::min() / 2) return low;
  if (number && *number >= std::numeric_limits<int32_t>::max()) return high;
  const sym::Expr place = number && *number < 0 ? dim + bound : bound;
  if (const auto above = (place - high).constant(); above && *above >= 0) return high;
  if (!place.constant()) return place;
  if (*place.constant() <= low) return low;
  return dim.is_constant() ? place : sym::min(place, high);
}

// The number of elements that a step takes between two bounds.
sym::Expr taken(const sym::Expr& start, const sym::Expr& end, int64_t step) {
  const sym::Expr span = step > 0 ? end - start : start - end;
  const int64_t stride = step > 0 ? step : -step;
  const sym::Expr count = stride == 1 ? span : sym::ceildiv(span, stride);
  return count.constant() && *count.constant() < 0 ? sym::Expr(0) : count;
}

}  // namespace

Result<ir::Dims> broadcast(const ir::Dims& a, const ir::Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  ir::Dims result(rank);
  for (size_t d = 0; d < rank; ++d) {
    const sym::Expr x = d + a.size() < rank ? sym::Expr(1) : a[d + a.size() - rank];
    const sym::Expr y = d + b.size() < rank ? sym::Expr(1) : b[d + b.size() - rank];
    if (x == y || is(y, 1))
      result[d] = x;
    else if (is(x, 1) || y.is_constant())
      result[d] = y;
    else
      result[d] = x;
    if (x.is_constant() && y.is_constant() && !(x == y) && !is(x, 1) && !is(y, 1))
      return error(ErrorCode::kInput, fmt::format("extents {} and {} of dim {} do not broadcast",
                                                  *x.constant(), *y.constant(), d));
  }
  return result;
}

Result<ir::Dims> reshape_dims(const ir::Dims& from, std::span<const sym::Expr> target,
                              bool allow_zero) {
  ir::Dims dims;
  std::optional<size_t> free_dim;
  for (size_t d = 0; d < target.size(); ++d) {
    sym::Expr dim = target[d];
    if (is(dim, 0) && !allow_zero) {
      if (d >= from.size())
        return error(
            ErrorCode::kInput,
            fmt::format("dim {} is to be copied from a tensor of rank {}", d, from.size()));
      dim = from[d];
    }
    if (is(dim, -1)) {
      if (free_dim)
        return error(ErrorCode::kInput, fmt::format("dims {} and {} are both -1", *free_dim, d));
      free_dim = d;
    } else if (dim.constant() && *dim.constant() < 0) {
      return error(ErrorCode::kInput, fmt::format("dim {} is {}", d, *dim.constant()));
    }
    dims.push_back(dim);
  }
  if (free_dim) {
    std::vector<sym::Expr> known = dims;
    known.erase(known.begin() + static_cast<std::ptrdiff_t>(*free_dim));
    if (is(product(known), 0)) return error(ErrorCode::kInput, "-1 beside a dim of 0");
    dims[*free_dim] = quotient(from, known);
  }
  const auto before = product(from).constant(), after = product(dims).constant();
  if (before && after && *before != *after)
    return error(ErrorCode::kInput,
                 fmt::format("{} elements cannot take a shape of {}", *before, *after));
  return dims;
}

Result<Cut> slice_cut(const ir::Dims& dims, std::span<const sym::Expr> starts,
                      std::span<const sym::Expr> ends, std::span<const size_t> axes,
                      std::span<const int64_t> steps) {
  if (starts.size() != ends.size() || starts.size() > dims.size() ||
      (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size()))
    return error(ErrorCode::kInput,
                 fmt::format("{} starts, {} ends, {} axes and {} steps for rank {}", starts.size(),
                             ends.size(), axes.size(), steps.size(), dims.size()));
  Cut cut{ir::Dims(dims.size()), dims, std::vector<int64_t>(dims.size(), 1)};
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t d = axes.empty() ? i : axes[i];
    const int64_t step = steps.empty() ? 1 : steps[i];
    if (step == 0) return error(ErrorCode::kInput, fmt::format("step 0 along dim {}", d));
    const sym::Expr& dim = dims[d];
    if (step < 0 && !dim.is_constant())
      return error(ErrorCode::kInput, fmt::format("a negative step along the symbolic dim {}", d));
    cut.steps[d] = step;
    if (is(dim, 0)) continue;  // nothing, from wherever
    const sym::Expr high = step > 0 ? dim : dim - 1;
    cut.starts[d] = clamp_bound(starts[i], dim, 0, high);
    const sym::Expr end = clamp_bound(ends[i], dim, step > 0 ? 0 : -1, high);
    cut.sizes[d] = taken(cut.starts[d], end, step);
  }
  return cut;
}

}  // namespace lowtide::io
