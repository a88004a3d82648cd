// Unification of axis extents. Each dimension of a present input is an equation between its extent
// and the axes in its index expression; so is each dimension of an output whose extent an attribute
// says. Equations are solved in rounds: one with a single unknown axis gives it (a group by
// division, a window by the output-size formula), one without unknowns is compared, others wait.
// Two different constants are an error. When the two differ and one is symbolic, their equality
// becomes a fact and the constant is kept where there is one.
//
// A number that overflows 64 bits is no number that is not known yet: an equation with one is an
// error, and so is a window or slice whose places, in bytes of its operand, overflow.
#include "ops/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "sym/product.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

constexpr std::string_view kOverflows = "a number overflows 64 bits";

// Where it comes from is put into words only when it does not hold.
struct Equation {
  DimIndex* dim;
  Expr extent;
  int input = -1;  // -1: the attribute that says the dimension's extent
  size_t position = 0;
  bool done = false;
};

// How many positions a window has over a dimension of `extent`. With ceil_mode a window may hang
// over the end, but must begin inside of the dimension or its low padding.
Expr window_count(const DimIndex& dim, const Expr& extent, const Expr& taps) {
  const Expr span = dim.dilation * (taps - 1) + 1;
  const Expr room = extent + dim.pad_low + dim.pad_high - span;
  if (!dim.ceil_mode) return floordiv(room, dim.stride) + 1;
  return min(ceildiv(room, dim.stride), floordiv(extent + dim.pad_low - 1, dim.stride)) + 1;
}

class Binder {
 public:
  Binder(Signature& signature, const Instance& instance, Facts* facts)
      : signature_(signature), instance_(instance), facts_(facts) {}

  Status run() {
    collect();
    for (bool progress = true; progress;) {
      progress = false;
      for (Equation& equation : equations_) {
        if (equation.done) continue;
        LT_RETURN_IF_ERROR(solve(equation));
        progress |= equation.done;
      }
    }
    for (Equation& equation : equations_)
      if (!equation.done) LT_RETURN_IF_ERROR(settle(equation));
    for (const SignatureAxis& axis : signature_.axes)
      if (!axis.extent)
        return fail(fmt::format("the extent of axis {} follows from no input", axis.name));
    LT_RETURN_IF_ERROR(check_extents());
    simplify_groups();
    for (size_t i = 0; i < signature_.inputs.size(); ++i)
      if (signature_.inputs[i])
        LT_RETURN_IF_ERROR(check_places(*signature_.inputs[i], instance_.inputs[i]->dims));
    for (const OperandIndex& output : signature_.outputs)
      LT_RETURN_IF_ERROR(check_places(output, dims_of(signature_, output)));
    return {};
  }

 private:
  void collect() {
    for (size_t i = 0; i < signature_.inputs.size(); ++i) {
      if (!signature_.inputs[i]) continue;
      OperandIndex& operand = *signature_.inputs[i];
      for (size_t d = 0; d < operand.size(); ++d)
        equations_.push_back({&operand[d], instance_.inputs[i]->dims[d], static_cast<int>(i), d});
    }
    for (size_t i = 0; i < signature_.outputs.size(); ++i)
      for (DimIndex& dim : signature_.outputs[i])
        if (dim.extent && dim.extent_source) equations_.push_back({&dim, *dim.extent});
  }

  std::string where(const Equation& equation) const {
    if (equation.input < 0) return fmt::format("attribute {}", equation.dim->extent_source->name);
    const Type& input = *instance_.inputs[static_cast<size_t>(equation.input)];
    return fmt::format("input {}, dimension {} of {}", equation.input, equation.position,
                       print(input.dims));
  }

  std::optional<Expr>& extent(int axis) {
    return signature_.axes[static_cast<size_t>(axis)].extent;
  }

  // Compares an axis with a second extent, or gives it its first.
  Status unify(int axis, const Expr& found, const Equation& equation) {
    std::optional<Expr>& known = extent(axis);
    if (found.poisoned()) return fail(fmt::format("{}: {}", where(equation), kOverflows));
    if (!known) {
      known = found;
      return {};
    }
    if (*known == found) return {};
    if (known->is_constant() && found.is_constant())
      return fail(fmt::format("{}: {} where axis {} has {}", where(equation), sym::print(found),
                              signature_.axes[static_cast<size_t>(axis)].name, sym::print(*known)));
    assume(*known, found);
    if (found.is_constant()) known = found;
    return {};
  }

  void assume(const Expr& a, const Expr& b) {
    if (facts_ == nullptr) return;
    const std::pair<Expr, Expr> fact(a, b);
    if (std::find(facts_->begin(), facts_->end(), fact) == facts_->end()) facts_->push_back(fact);
  }

  Status solve(Equation& equation) {
    DimIndex& dim = *equation.dim;
    switch (dim.form) {
      case LinkKind::kDirect:
      case LinkKind::kChosen:
        if (dim.may_broadcast && equation.extent == Expr(1)) return {};
        equation.done = true;
        return unify(dim.axes[0], equation.extent, equation);
      case LinkKind::kBroadcast:
        equation.done = true;
        if (equation.extent == Expr(1)) return {};
        if (equation.extent.is_constant())
          return fail(fmt::format("{}: wanted 1", where(equation)));
        assume(equation.extent, 1);
        return {};
      case LinkKind::kGroup:
        return solve_group(equation);
      case LinkKind::kWindow:
        return solve_window(equation);
      case LinkKind::kShift:
        return solve_shift(equation);
      case LinkKind::kPiece:
        return fail("pieces occur in outputs only");
    }
    return {};
  }

  Status solve_group(Equation& equation) {
    Expr product = 1;
    int open = -1, open_count = 0;
    for (int axis : equation.dim->axes) {
      if (extent(axis)) {
        product = product * *extent(axis);
      } else {
        open = axis;
        ++open_count;
      }
    }
    if (open_count > 1) return {};
    equation.done = true;
    const auto whole = equation.extent.constant(), part = product.constant();
    if (open_count == 1) {
      if (whole && part && (*part == 0 || *whole % *part != 0))
        return fail(fmt::format("{}: {} is no multiple of {}", where(equation), *whole, *part));
      const Expr quotient = floordiv(equation.extent, product);
      if (!(quotient * product == equation.extent)) assume(quotient * product, equation.extent);
      return unify(open, quotient, equation);
    }
    if (product.poisoned()) return fail(fmt::format("{}: {}", where(equation), kOverflows));
    if (product == equation.extent) return {};
    if (whole && part)
      return fail(fmt::format("{}: {}, wanted the product {}", where(equation), *whole, *part));
    assume(product, equation.extent);
    return {};
  }

  Status solve_window(Equation& equation) {
    const DimIndex& dim = *equation.dim;
    if (!extent(dim.axes[1])) return {};
    equation.done = true;
    LT_RETURN_IF_ERROR(check_window(dim, equation));
    const Expr count = window_count(dim, equation.extent, *extent(dim.axes[1]));
    if (const auto number = count.constant(); number && *number < 1)
      return fail(fmt::format("{}: a window of {} (dilation {}) does not fit", where(equation),
                              sym::print(*extent(dim.axes[1])), sym::print(dim.dilation)));
    return unify(dim.axes[0], count, equation);
  }

  Status solve_shift(Equation& equation) {
    const DimIndex& dim = *equation.dim;
    const bool given = extent(dim.axes[0]).has_value();
    equation.done = true;
    if (!given) {
      const Expr length = equation.extent + dim.pad_low + dim.pad_high;
      if (const auto number = length.constant(); number && *number < 0)
        return fail(fmt::format("{}: {} is left of it", where(equation), *number));
      return unify(dim.axes[0], length, equation);
    }
    const Expr& size = *extent(dim.axes[0]);
    const Expr begin = -dim.pad_low, last = begin + (size - 1) * dim.stride;
    if (begin.poisoned() || last.poisoned())
      return fail(fmt::format("{}: the last place of a slice of {} from {} by {}: {}",
                              where(equation), sym::print(size), sym::print(dim.pad_low),
                              sym::print(dim.stride), kOverflows));
    const auto is_below = [](const Expr& expr, int64_t least) {
      return expr.constant().value_or(least) < least;
    };
    const auto end = equation.extent.constant();
    const bool is_beyond = end && (begin.constant().value_or(*end) > *end ||
                                   (size.constant() != 0 && last.constant().value_or(-1) >= *end));
    if (is_below(size, 0) || is_below(begin, 0) || is_below(dim.stride, 1) || is_beyond)
      return fail(fmt::format("{}: a slice of {} from {} by {} lies outside", where(equation),
                              sym::print(size), sym::print(begin), sym::print(dim.stride)));
    return {};
  }

  // Also where no equation has the axis: an attribute may give an extent that nothing else says.
  Status check_extents() const {
    for (const SignatureAxis& axis : signature_.axes)
      if (axis.extent->poisoned() || axis.extent->constant().value_or(0) < 0)
        return fail(fmt::format("axis {} has {} elements", axis.name, sym::print(*axis.extent)));
    const auto check = [&](const OperandIndex& operand) -> Status {
      for (const DimIndex& dim : operand) {
        const bool is_window = dim.form == LinkKind::kWindow;
        if (is_window && signature_.axes[static_cast<size_t>(dim.axes[1])].extent->constant() == 0)
          return fail("a window has 0 places; at least 1 is needed");
      }
      return {};
    };
    for (const auto& operand : signature_.inputs)
      if (operand) LT_RETURN_IF_ERROR(check(*operand));
    for (const OperandIndex& operand : signature_.outputs) LT_RETURN_IF_ERROR(check(operand));
    return {};
  }

  // What a window reads is counted in 32 bits by the libraries that kernels call.
  Status check_window(const DimIndex& dim, const Equation& equation) const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    for (const Expr* number : {&dim.stride, &dim.dilation, &dim.pad_low, &dim.pad_high})
      if (const auto value = number->constant(); value && (*value > kMost || *value < -kMost))
        return fail(
            fmt::format("{}: strides, dilations and pads of a window are at most {}, "
                        "one is {}",
                        where(equation), kMost, *value));
    return {};
  }

  // The bytes from the operand's first element to the outermost places that a window or slice of it
  // names, in its padding or not, are numbers of 64 bits.
  Status check_places(const OperandIndex& operand, const ir::Dims& dims) const {
    constexpr int64_t kMostElementBytes = 8;
    for (const DimIndex& dim : operand) {
      if (dim.form != LinkKind::kWindow && dim.form != LinkKind::kShift) continue;
      const auto extent = [&](size_t i) {
        return *signature_.axes[static_cast<size_t>(dim.axes[i])].extent;
      };
      Expr far = dim.stride * (extent(0) - 1);
      if (dim.form == LinkKind::kWindow) far = far + dim.dilation * (extent(1) - 1);
      const Expr bytes = sym::product(dims) * kMostElementBytes;
      if (bytes.poisoned()) return {};  // it is too large itself, which the graph says of it
      if ((far * bytes).poisoned() || ((far - dim.pad_low) * bytes).poisoned() ||
          (dim.pad_low * bytes).poisoned() || (dim.pad_high * bytes).poisoned())
        return fail(
            fmt::format("the places of a window or slice of {}: {}", print(dims), kOverflows));
    }
    return {};
  }

  // What is left are dimensions of extent 1 that may broadcast, and equations that no operand could
  // solve.
  Status settle(Equation& equation) {
    DimIndex& dim = *equation.dim;
    if (dim.form != LinkKind::kDirect)
      return fail(fmt::format("{}: its axes follow from no input", where(equation)));
    std::optional<Expr>& known = extent(dim.axes[0]);
    if (!known) known = equation.extent;
    if (!(*known == equation.extent)) dim.form = LinkKind::kBroadcast;
    return {};
  }

  // An axis of extent 1 in a group with others adds nothing to the index.
  void simplify_groups() {
    const auto simplify = [&](OperandIndex& operand) {
      for (DimIndex& dim : operand) {
        if (dim.form != LinkKind::kGroup) continue;
        std::erase_if(dim.axes, [&](int axis) { return *extent(axis) == Expr(1); });
        if (dim.axes.size() == 1) dim.form = LinkKind::kDirect;
        if (dim.axes.empty()) dim.form = LinkKind::kBroadcast;
      }
    };
    for (auto& operand : signature_.inputs)
      if (operand) simplify(*operand);
    for (OperandIndex& operand : signature_.outputs) simplify(operand);
  }

  tl::unexpected<Error> fail(const std::string& message) const {
    return error(ErrorCode::kInput, fmt::format("{}: {}", instance_.kind, message));
  }

  Signature& signature_;
  const Instance& instance_;
  Facts* facts_;
  std::vector<Equation> equations_;
};

}  // namespace

Status bind(Signature& signature, const Instance& instance, Facts* facts) {
  return Binder(signature, instance, facts).run();
}

Expr extent_of(const Signature& signature, const DimIndex& dim) {
  if (dim.extent) return *dim.extent;
  const auto axis = [&](size_t i) -> const Expr& {
    return *signature.axes[static_cast<size_t>(dim.axes[i])].extent;
  };
  Expr extent = dim.form == LinkKind::kPiece ? 0 : 1;
  switch (dim.form) {
    case LinkKind::kBroadcast:
      return 1;
    case LinkKind::kDirect:
    case LinkKind::kChosen:
      return axis(0);
    case LinkKind::kGroup:
      for (size_t i = 0; i < dim.axes.size(); ++i) extent = extent * axis(i);
      return extent;
    case LinkKind::kPiece:
      for (size_t i = 0; i < dim.axes.size(); ++i) extent = extent + axis(i);
      return extent;
    case LinkKind::kWindow:
      return dim.stride * (axis(0) - 1) + dim.dilation * (axis(1) - 1) + 1 - dim.pad_low -
             dim.pad_high;
    case LinkKind::kShift:
      return dim.stride * (axis(0) - 1) + 1 - dim.pad_low - dim.pad_high;
  }
  return extent;
}

ir::Dims dims_of(const Signature& signature, const OperandIndex& operand) {
  ir::Dims dims;
  for (const DimIndex& dim : operand) dims.push_back(extent_of(signature, dim));
  return dims;
}

}  // namespace lowtide::ops
