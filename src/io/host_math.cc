// Arithmetic, comparisons and logic on host values, in both forms: element by element on dense
// ones, once on formulas.
//
// A formula has a closed answer for + and - of anything; * with a factor that has no index;
// comparisons of any two (a condition on their difference); max and min of two that differ by a
// number; and, or, not of conditions where the answer is again a conjunction; a choice between two
// floats. Everything else is computed densely or left unknown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/element.h"
#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using sym::Expr;

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kRemainder,  // with the sign of the dividend
  kPow,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual
};

bool is_comparison(Op op) {
  return op >= Op::kEqual;
}

double apply(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kMod:
    case Op::kRemainder:
      return std::fmod(a, b);
    case Op::kPow:
      return std::pow(a, b);
    case Op::kMin:
      return std::isnan(a) || a < b ? a : b;
    case Op::kMax:
      return std::isnan(a) || a > b ? a : b;
    case Op::kEqual:
      return a == b;
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    case Op::kGreaterEqual:
      return a >= b;
    case Op::kAnd:
      return a != 0 && b != 0;
    case Op::kOr:
      return a != 0 || b != 0;
    case Op::kXor:
      return (a != 0) != (b != 0);
  }
  return 0;
}

Result<Expr> int_power(int64_t base, int64_t exponent) {
  if (base == 1 || exponent == 0) return Expr(1);
  if (base == -1) return Expr(exponent % 2 == 0 ? 1 : -1);
  if (exponent < 0 && base != 0) return Expr(0);
  if (exponent < 0 || exponent > 63)
    return error(ErrorCode::kInput, fmt::format("{} to the power of {}", base, exponent));
  Expr result = 1;
  for (int64_t i = 0; i < exponent; ++i) result = result * Expr(base);
  return result;
}

// Integers: C's division (towards zero) on numbers; symbolic sizes are positive, where all
// divisions agree.
Result<Expr> divide(Op op, const Expr& a, const Expr& b) {
  if (b == Expr(0)) return error(ErrorCode::kInput, "an integer division by 0");
  const auto x = a.constant(), y = b.constant();
  if (x && y && !(*y == -1)) {
    if (op == Op::kDiv) return Expr(*x / *y);
    if (op == Op::kRemainder) return Expr(*x % *y);
    return sym::mod(a, b);
  }
  if (y && *y == -1) return op == Op::kDiv ? -a : Expr(0);
  return op == Op::kDiv ? sym::floordiv(a, b) : sym::mod(a, b);
}

Result<Expr> apply_ints(Op op, const Expr& a, const Expr& b) {
  if (op == Op::kAdd) return a + b;
  if (op == Op::kSub) return a - b;
  if (op == Op::kMul) return a * b;
  if (op == Op::kDiv || op == Op::kMod || op == Op::kRemainder) return divide(op, a, b);
  if (op == Op::kMin) return sym::min(a, b);
  if (op == Op::kMax) return sym::max(a, b);
  if (op == Op::kPow) {
    if (a.constant() && b.constant()) return int_power(*a.constant(), *b.constant());
    return error(ErrorCode::kInput, needs_number(a + b));
  }
  const Expr difference = a - b;  // comparisons and logic look at signs
  if (!difference.constant()) return error(ErrorCode::kInput, needs_number(difference));
  if (is_comparison(op))
    return Expr(apply(op, static_cast<double>(*difference.constant()), 0) != 0 ? 1 : 0);
  if (!a.constant() || !b.constant()) return error(ErrorCode::kInput, needs_number(a + b));
  return Expr(static_cast<int64_t>(
      apply(op, static_cast<double>(*a.constant()), static_cast<double>(*b.constant()))));
}

// A number as its type holds it, wrapped around; sizes that are not known yet fit.
Expr held(DType dtype, const Expr& value) {
  const auto number = value.constant();
  return number ? Expr(wrapped(dtype, *number)) : value;
}

std::vector<Affine> negated(const Affine& condition) {
  Affine inverse = scaled(condition, -1);
  inverse.base = inverse.base - 1;
  return {inverse};
}

// left op right, both integers, as conditions.
std::vector<Affine> compare(Op op, const Affine& left, const Affine& right) {
  const Affine difference = left - right;  // left >= right
  Affine strict = difference;
  strict.base = strict.base - 1;  // left > right
  switch (op) {
    case Op::kGreaterEqual:
      return {difference};
    case Op::kGreater:
      return {strict};
    case Op::kLess:
      return negated(difference);
    case Op::kLessEqual:
      return negated(strict);
    default:
      return {difference, scaled(difference, -1)};
  }
}

// Conjunctions that are decided become true or false.
std::vector<Affine> simplified(std::vector<Affine> conditions, size_t rank) {
  if (const auto known = known_truth(conditions)) return truth(*known, rank);
  std::erase_if(conditions, [](const Affine& c) { return known_truth({&c, 1}).value_or(false); });
  return conditions;
}

std::optional<std::vector<Affine>> inverted(const std::vector<Affine>& conditions, size_t rank) {
  if (const auto known = known_truth(conditions)) return truth(!*known, rank);
  if (conditions.size() == 1) return negated(conditions[0]);
  return std::nullopt;
}

std::optional<std::vector<Affine>> logic(Op op, std::vector<Affine> a, const std::vector<Affine>& b,
                                         size_t rank) {
  if (op == Op::kAnd) {
    a.insert(a.end(), b.begin(), b.end());
    return simplified(std::move(a), rank);
  }
  const auto x = known_truth(a), y = known_truth(b);
  if (!x && !y) return std::nullopt;
  const bool known = x ? *x : *y;
  const std::vector<Affine>& other = x ? b : a;
  if (op == Op::kOr) return known ? truth(true, rank) : other;
  if (op == Op::kXor) return known ? inverted(other, rank) : std::optional(other);
  if (op == Op::kEqual) return known ? std::optional(other) : inverted(other, rank);
  return std::nullopt;
}

std::optional<Affine> affine_binary(Op op, const Affine& a, const Affine& b) {
  if (op == Op::kAdd) return a + b;
  if (op == Op::kSub) return a - b;
  if (op == Op::kMul && b.is_flat()) return scaled(a, b.base);
  if (op == Op::kMul && a.is_flat()) return scaled(b, a.base);
  if (op == Op::kMin || op == Op::kMax) {
    const auto difference = (a - b).constant();
    if (difference) return (*difference > 0) == (op == Op::kMax) ? a : b;
  }
  if (a.constant() && b.constant()) {
    const auto value = apply_ints(op, a.base, b.base);
    if (value) return flat(*value, a.slope.size());
  }
  return std::nullopt;
}

std::optional<Cell> real_binary(Op op, DType dtype, const Cell& a, const Cell& b) {
  const bool same = a.conditions == b.conditions;
  if (!same && !a.conditions.empty() && !b.conditions.empty()) return std::nullopt;
  Cell cell;
  cell.integer = a.integer;
  cell.conditions = a.conditions.empty() ? b.conditions : a.conditions;
  cell.real = round_to(dtype, apply(op, a.real, b.real));
  const double left = a.conditions.empty() ? a.real : a.otherwise,
               right = b.conditions.empty() ? b.real : b.otherwise;
  cell.otherwise = cell.conditions.empty() ? cell.real : round_to(dtype, apply(op, left, right));
  return cell;
}

// Both formulas over the result's index.
std::optional<Cell> binary_cell(Op op, DType dtype, const Cell& a, const Cell& b, size_t rank) {
  Cell cell;
  cell.integer = flat(0, rank);
  if (dtype == DType::kBool) {
    const auto conditions = logic(op, a.conditions, b.conditions, rank);
    if (!conditions) return std::nullopt;
    cell.conditions = *conditions;
    return cell;
  }
  if (is_float(dtype)) {
    if (!is_comparison(op)) return real_binary(op, dtype, a, b);
    // real_binary compares on both sides of the conditions: 1 where true.
    const auto sides = real_binary(op, DType::kF64, a, b);
    if (!sides) return std::nullopt;
    const bool inside = sides->real != 0, outside = sides->otherwise != 0;
    const std::optional<std::vector<Affine>> conditions = inside == outside ? truth(inside, rank)
                                                          : inside
                                                              ? sides->conditions
                                                              : inverted(sides->conditions, rank);
    if (!conditions) return std::nullopt;
    cell.conditions = *conditions;
    return cell;
  }
  if (is_comparison(op)) {
    cell.conditions = simplified(compare(op, a.integer, b.integer), rank);
    return cell;
  }
  const auto integer = affine_binary(op, a.integer, b.integer);
  if (!integer) return std::nullopt;
  cell.integer = *integer;
  if (integer->is_flat()) cell.integer.base = held(dtype, integer->base);
  return cell;
}

// Numbers are kept in signed 64 bits.
Status check_kept(DType dtype, const Expr& value) {
  if (dtype != DType::kU64 || value.constant().value_or(0) >= 0) return {};
  return error(ErrorCode::kInput,
               fmt::format("the u64 {} wraps around and is not folded", *value.constant()));
}

Result<HostValue> dense_binary(Op op, const HostValue& a, const HostValue& b, HostValue result) {
  const size_t rank = result.dims.size();
  LT_ASSIGN(const HostValue x, remap(a, result.dims, broadcast_map(a.dims, rank)));
  LT_ASSIGN(const HostValue y, remap(b, result.dims, broadcast_map(b.dims, rank)));
  LT_ASSIGN(const HostValue left, densify(x));
  LT_ASSIGN(const HostValue right, densify(y));
  if (is_float(a.dtype)) {
    for (size_t i = 0; i < left.reals.size(); ++i) {
      const double value = apply(op, left.reals[i], right.reals[i]);
      if (result.dtype == DType::kBool)
        result.ints.emplace_back(value != 0 ? 1 : 0);
      else
        result.reals.push_back(round_to(result.dtype, value));
    }
    return result;
  }
  for (size_t i = 0; i < left.ints.size(); ++i) {
    LT_ASSIGN(const Expr value, apply_ints(op, left.ints[i], right.ints[i]));
    LT_RETURN_IF_ERROR(check_kept(result.dtype, value));
    result.ints.push_back(wrap_to(result.dtype, value));
  }
  return result;
}

Result<HostValue> binary(Op op, const HostValue& a, const HostValue& b) {
  HostValue result;
  result.dtype = is_comparison(op) ? DType::kBool : a.dtype;
  LT_ASSIGN(result.dims, broadcast(a.dims, b.dims));
  const size_t rank = result.dims.size();
  const bool formula = a.form != HostValue::Form::kDense || b.form != HostValue::Form::kDense ||
                       is_large(result.dims);
  if (formula) {
    const auto x = as_indexed(a), y = as_indexed(b);
    if (x && y) {
      const Cell left = compose(x->cell, broadcast_map(a.dims, rank), rank);
      const Cell right = compose(y->cell, broadcast_map(b.dims, rank), rank);
      const auto cell = binary_cell(op, a.dtype, left, right, rank);
      if (cell && fits(result.dtype, cell->integer, result.dims)) {
        result.form = HostValue::Form::kIndexed;
        result.cell = *cell;
        return result;
      }
    }
  }
  auto dense = dense_binary(op, a, b, result);
  if (dense || !formula) return dense;
  return host_unknown(result.dtype, result.dims, dense.error().message);
}

// ---- types ----

// A formula in another type; none where it would not be one.
std::optional<Cell> cast_cell(const HostValue& value, DType to) {
  const size_t rank = value.dims.size();
  Cell cell = value.cell;
  const bool from_int = !is_float(value.dtype) && value.dtype != DType::kBool;
  if (from_int && !is_float(to) && to != DType::kBool) {
    if (!fits(to, cell.integer, value.dims)) return std::nullopt;
    return cell;
  }
  if (value.dtype == DType::kBool) {
    if (is_float(to)) {
      cell.real = 1, cell.otherwise = 0;
      return cell;
    }
    const auto known = known_truth(cell.conditions);
    if (!known) return std::nullopt;
    cell.conditions.clear();
    cell.integer = flat(*known ? 1 : 0, rank);
    return cell;
  }
  if (from_int && cell.integer.constant()) {
    const int64_t v = *cell.integer.constant();
    cell.real = cell.otherwise = round_to(to, static_cast<double>(v));
    if (to == DType::kBool) cell.conditions = truth(v != 0, rank);
    return cell;
  }
  return std::nullopt;
}

Result<HostValue> cast_dense(const HostValue& value, DType to) {
  LT_ASSIGN(const HostValue dense, densify(value));
  HostValue result;
  result.dtype = to;
  result.dims = dense.dims;
  if (!is_float(to) && !is_float(value.dtype)) {
    result.ints = dense.ints;
    for (Expr& v : result.ints) {
      LT_RETURN_IF_ERROR(check_kept(to, v));
      v = wrap_to(to, v);
    }
    return result;
  }
  LT_ASSIGN(const std::vector<double> reals, host_reals(dense));
  for (double v : reals) {
    if (is_float(to))
      result.reals.push_back(round_to(to, v));
    else if (to == DType::kBool)
      result.ints.emplace_back(v != 0 ? 1 : 0);
    else {
      const Expr whole = truncated(to, v);
      LT_RETURN_IF_ERROR(check_kept(to, whole));
      result.ints.push_back(wrap_to(to, whole));
    }
  }
  return result;
}

Result<HostValue> cast(const HostValue& value, std::optional<DType> to) {
  if (!to) return error(ErrorCode::kInput, "a cast to a type that is not computed with");
  if (*to == value.dtype) return value;
  if (value.form == HostValue::Form::kUnknown) return host_unknown(*to, value.dims, value.reason);
  if (value.form == HostValue::Form::kIndexed) {
    if (const auto cell = cast_cell(value, *to)) {
      HostValue result = value;
      result.dtype = *to;
      result.cell = *cell;
      return result;
    }
  }
  return cast_dense(value, *to);
}

template <Op op>
HostResult fold_binary(const HostCall& call) {
  HostValue total = call.in(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    LT_ASSIGN(total, binary(op, total, call.in(i)));
  }
  return std::vector<HostValue>{std::move(total)};
}

// The sign of the divisor, or with fmod that of the dividend.
HostResult fold_modulo(const HostCall& call) {
  const bool real = is_float(call.in(0).dtype);
  if (int_attr(call.node, "fmod", 0) == 0) {
    if (real) return error(ErrorCode::kInput, "Mod of floats takes the dividend's sign (fmod=1)");
    return fold_binary<Op::kMod>(call);
  }
  return real ? fold_binary<Op::kMod>(call) : fold_binary<Op::kRemainder>(call);
}

// The exponent may have another type; the base's is the result's.
HostResult fold_power(const HostCall& call) {
  const HostValue &base = call.in(0), &exponent = call.in(1);
  if (base.dtype == exponent.dtype) return single(binary(Op::kPow, base, exponent));
  LT_ASSIGN(const HostValue wide_base, cast(base, DType::kF64));
  LT_ASSIGN(const HostValue wide_exponent, cast(exponent, DType::kF64));
  LT_ASSIGN(const HostValue power, binary(Op::kPow, wide_base, wide_exponent));
  return single(cast(power, base.dtype));
}

// ---- one operand ----

template <auto function>
HostResult fold_real(const HostCall& call) {
  LT_ASSIGN(HostValue value, densify(call.in(0)));
  for (double& v : value.reals) v = round_to(value.dtype, function(v));
  return std::vector<HostValue>{std::move(value)};
}

HostResult fold_neg(const HostCall& call) {
  HostValue value = call.in(0);
  if (is_float(value.dtype)) return fold_real<[](double v) { return -v; }>(call);
  if (value.form == HostValue::Form::kIndexed) {
    const Affine negative = scaled(value.cell.integer, -1);
    if (fits(value.dtype, negative, value.dims)) {
      value.cell.integer = negative;
      return std::vector<HostValue>{std::move(value)};
    }
  }
  LT_ASSIGN(HostValue dense, densify(value));
  for (Expr& v : dense.ints) v = wrap_to(dense.dtype, -v);
  return std::vector<HostValue>{std::move(dense)};
}

HostResult fold_abs(const HostCall& call) {
  if (is_float(call.in(0).dtype)) return fold_real<[](double v) { return std::fabs(v); }>(call);
  LT_ASSIGN(HostValue value, densify(call.in(0)));
  for (Expr& v : value.ints) {
    if (!v.constant()) return error(ErrorCode::kInput, needs_number(v));
    if (*v.constant() < 0) v = wrap_to(value.dtype, -v);
  }
  return std::vector<HostValue>{std::move(value)};
}

HostResult fold_not(const HostCall& call) {
  HostValue value = call.in(0);
  if (value.form == HostValue::Form::kIndexed) {
    if (const auto conditions = inverted(value.cell.conditions, value.dims.size())) {
      value.cell.conditions = *conditions;
      return std::vector<HostValue>{std::move(value)};
    }
  }
  LT_ASSIGN(HostValue dense, densify(value));
  for (Expr& v : dense.ints) v = v == Expr(0) ? 1 : 0;
  return std::vector<HostValue>{std::move(dense)};
}

HostResult fold_cast(const HostCall& call) {
  LT_ASSIGN(HostValue value,
            cast(call.in(0), onnx_dtype(static_cast<int32_t>(int_attr(call.node, "to", 0)))));
  return std::vector<HostValue>{std::move(value)};
}

HostResult fold_cast_like(const HostCall& call) {
  LT_ASSIGN(HostValue value, cast(call.in(0), call.in(1).dtype));
  return std::vector<HostValue>{std::move(value)};
}

// One number (the value of a Pad). Tables stay as small as they are and become floats in the plan.
HostResult fold_dequantize(const HostCall& call) {
  std::vector<double> given;  // x, scale, zero
  for (size_t i = 0; i < 3; ++i) {
    if (!call.has(i)) continue;
    LT_ASSIGN(const std::vector<double> one, host_reals(call.in(i)));
    if (one.size() != 1) return error(ErrorCode::kInput, "more than one number");
    given.push_back(one[0]);
  }
  if (int_attr(call.node, "output_dtype", 0) != 0)
    return error(ErrorCode::kInput, "a result of another type than the scale");
  HostValue value;
  value.dtype = call.in(1).dtype;
  value.dims = call.in(0).dims;
  value.reals = {round_to(value.dtype, (given[0] - (given.size() > 2 ? given[2] : 0)) * given[1])};
  return std::vector<HostValue>{std::move(value)};
}

// ---- choice ----

std::optional<Cell> choose_cell(const Cell& condition, const Cell& a, const Cell& b, DType dtype) {
  if (const auto known = known_truth(condition.conditions)) return *known ? a : b;
  if (!is_float(dtype) || !a.conditions.empty() || !b.conditions.empty()) return std::nullopt;
  Cell cell = condition;
  cell.real = a.real;
  cell.otherwise = b.real;
  return cell;
}

Result<HostValue> choose_dense(const HostCall& call, HostValue result) {
  const size_t rank = result.dims.size();
  std::vector<HostValue> operands;
  for (size_t i = 0; i < 3; ++i) {
    LT_ASSIGN(const HostValue whole,
              remap(call.in(i), result.dims, broadcast_map(call.in(i).dims, rank)));
    LT_ASSIGN(HostValue dense, densify(whole));
    operands.push_back(std::move(dense));
  }
  for (size_t i = 0; i < operands[0].ints.size(); ++i) {
    const HostValue& chosen = operands[operands[0].ints[i] == Expr(0) ? 2 : 1];
    if (is_float(result.dtype))
      result.reals.push_back(chosen.reals[i]);
    else
      result.ints.push_back(chosen.ints[i]);
  }
  return result;
}

HostResult fold_where(const HostCall& call) {
  HostValue result;
  result.dtype = call.in(1).dtype;
  LT_ASSIGN(const ir::Dims both, broadcast(call.in(1).dims, call.in(2).dims));
  LT_ASSIGN(result.dims, broadcast(call.in(0).dims, both));
  const size_t rank = result.dims.size();
  std::vector<Cell> cells;
  for (size_t i = 0; i < 3; ++i)
    if (const auto indexed = as_indexed(call.in(i)))
      cells.push_back(compose(indexed->cell, broadcast_map(call.in(i).dims, rank), rank));
  const bool formula =
      cells.size() == 3 && (call.in(0).form == HostValue::Form::kIndexed || is_large(result.dims));
  if (const auto cell =
          formula ? choose_cell(cells[0], cells[1], cells[2], result.dtype) : std::nullopt) {
    result.form = HostValue::Form::kIndexed;
    result.cell = *cell;
    return std::vector<HostValue>{std::move(result)};
  }
  auto dense = choose_dense(call, result);
  if (!dense)
    return std::vector<HostValue>{host_unknown(result.dtype, result.dims, dense.error().message)};
  return std::vector<HostValue>{std::move(*dense)};
}

HostResult fold_is_nan(const HostCall& call) {
  LT_ASSIGN(HostValue value, densify(call.in(0)));
  for (double v : value.reals) value.ints.emplace_back(std::isnan(v) ? 1 : 0);
  value.reals.clear();
  value.dtype = DType::kBool;
  return std::vector<HostValue>{std::move(value)};
}

constexpr HostRow kHostMathRows[] = {
    {"Add", "T T", fold_binary<Op::kAdd>},
    {"Sub", "T T", fold_binary<Op::kSub>},
    {"Mul", "T T", fold_binary<Op::kMul>},
    {"Div", "T T", fold_binary<Op::kDiv>},
    {"Mod", "T T", fold_modulo},
    {"Pow", "n n", fold_power},
    {"Min", "T..", fold_binary<Op::kMin>},
    {"Max", "T..", fold_binary<Op::kMax>},
    {"Sum", "T..", fold_binary<Op::kAdd>},
    {"And", "b b", fold_binary<Op::kAnd>},
    {"Or", "b b", fold_binary<Op::kOr>},
    {"Xor", "b b", fold_binary<Op::kXor>},
    {"Equal", "T T", fold_binary<Op::kEqual>},
    {"Less", "T T", fold_binary<Op::kLess>},
    {"LessOrEqual", "T T", fold_binary<Op::kLessEqual>},
    {"Greater", "T T", fold_binary<Op::kGreater>},
    {"GreaterOrEqual", "T T", fold_binary<Op::kGreaterEqual>},
    {"Neg", "n", fold_neg},
    {"Abs", "n", fold_abs},
    {"Not", "b", fold_not},
    {"Sqrt", "f", fold_real<[](double v) { return std::sqrt(v); }>},
    {"Exp", "f", fold_real<[](double v) { return std::exp(v); }>},
    {"Log", "f", fold_real<[](double v) { return std::log(v); }>},
    {"Sin", "f", fold_real<[](double v) { return std::sin(v); }>},
    {"Cos", "f", fold_real<[](double v) { return std::cos(v); }>},
    {"Floor", "f", fold_real<[](double v) { return std::floor(v); }>},
    {"Ceil", "f", fold_real<[](double v) { return std::ceil(v); }>},
    {"Round", "f", fold_real<[](double v) { return std::nearbyint(v); }>},
    {"Reciprocal", "f", fold_real<[](double v) { return 1 / v; }>},
    {"Cast", "*", fold_cast},
    {"CastLike", "* *", fold_cast_like},
    {"DequantizeLinear", "n f n?", fold_dequantize},
    {"Where", "b T T", fold_where},
    {"IsNaN", "f", fold_is_nan},
};

}  // namespace

std::span<const HostRow> host_math_rows() {
  return kHostMathRows;
}

}  // namespace lowtide::io
