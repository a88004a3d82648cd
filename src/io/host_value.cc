#include "io/host_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/element.h"

namespace lowtide::io {
namespace {

const char* element(const OnnxTensor& tensor, int64_t i) {
  return tensor.bytes.data() + i * size_bytes(*tensor.dtype);
}

Result<bool> decide(std::span<const Affine> conditions, std::span<const int64_t> index) {
  bool all = true;
  for (const Affine& condition : conditions) {
    const sym::Expr value = at(condition, index);
    if (!value.constant()) return error(ErrorCode::kInput, needs_number(value));
    all &= *value.constant() >= 0;
  }
  return all;
}

Status write_element(const HostValue& value, std::span<const int64_t> index, HostValue& dense) {
  const bool columns = value.form == HostValue::Form::kColumns;
  const Cell& cell = columns ? value.columns[static_cast<size_t>(index.back())] : value.cell;
  if (!is_float(value.dtype) && value.dtype != DType::kBool) {
    dense.ints.push_back(at(cell.integer, index));
    return {};
  }
  LT_ASSIGN(const bool holds, decide(cell.conditions, index));
  if (value.dtype == DType::kBool)
    dense.ints.emplace_back(holds ? 1 : 0);
  else
    dense.reals.push_back(holds ? cell.real : cell.otherwise);
  return {};
}

}  // namespace

bool Affine::is_flat() const {
  return std::all_of(slope.begin(), slope.end(),
                     [](const sym::Expr& s) { return s == sym::Expr(0); });
}

std::optional<int64_t> Affine::constant() const {
  return is_flat() ? base.constant() : std::nullopt;
}

Affine flat(sym::Expr value, size_t rank) {
  return {std::move(value), std::vector<sym::Expr>(rank)};
}

Affine along(size_t dim, size_t rank) {
  Affine index = flat(0, rank);
  index.slope[dim] = 1;
  return index;
}

Affine operator+(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.base = a.base + b.base;
  for (size_t d = 0; d < sum.slope.size(); ++d) sum.slope[d] = a.slope[d] + b.slope[d];
  return sum;
}

Affine operator-(const Affine& a, const Affine& b) {
  return a + scaled(b, -1);
}

Affine scaled(const Affine& a, const sym::Expr& factor) {
  Affine product = a;
  product.base = a.base * factor;
  for (sym::Expr& s : product.slope) s = s * factor;
  return product;
}

std::optional<Span> span_of(const Affine& a, const ir::Dims& dims) {
  const auto base = a.base.constant();
  if (!base) return std::nullopt;
  Span span{*base, *base};
  for (size_t d = 0; d < a.slope.size(); ++d) {
    if (a.slope[d] == sym::Expr(0)) continue;
    const auto last = (a.slope[d] * (dims[d] - 1)).constant();
    if (!last || dims[d] == sym::Expr(0)) return std::nullopt;
    int64_t& end = *last < 0 ? span.least : span.greatest;
    if (__builtin_add_overflow(end, *last, &end)) return std::nullopt;
  }
  return span;
}

Affine compose(const Affine& a, std::span<const Affine> inner, size_t rank) {
  Affine result = flat(a.base, rank);
  for (size_t d = 0; d < a.slope.size(); ++d) result = result + scaled(inner[d], a.slope[d]);
  return result;
}

Cell compose(const Cell& cell, std::span<const Affine> inner, size_t rank) {
  Cell result = cell;
  result.integer = compose(cell.integer, inner, rank);
  for (Affine& condition : result.conditions) condition = compose(condition, inner, rank);
  return result;
}

sym::Expr at(const Affine& a, std::span<const int64_t> index) {
  sym::Expr value = a.base;
  for (size_t d = 0; d < a.slope.size(); ++d)
    if (!(a.slope[d] == sym::Expr(0))) value = value + a.slope[d] * sym::Expr(index[d]);
  return value;
}

std::vector<Affine> truth(bool value, size_t rank) {
  if (value) return {};
  return {flat(-1, rank)};
}

std::optional<bool> known_truth(std::span<const Affine> conditions) {
  bool all_known = true;
  for (const Affine& condition : conditions) {
    const auto value = condition.constant();
    if (value && *value < 0) return false;
    // An index is not negative, so a formula that only grows with indices is least at 0.
    const auto least = condition.base.constant();
    const bool grows =
        std::all_of(condition.slope.begin(), condition.slope.end(),
                    [](const sym::Expr& s) { return s.constant().value_or(-1) >= 0; });
    all_known &= grows && least && *least >= 0;
  }
  return all_known ? std::optional(true) : std::nullopt;
}

HostValue host_scalar(sym::Expr value) {
  HostValue scalar;
  scalar.ints.push_back(std::move(value));
  return scalar;
}

HostValue host_vector(std::vector<sym::Expr> values) {
  HostValue vector;
  vector.dims = {sym::Expr(static_cast<int64_t>(values.size()))};
  vector.ints = std::move(values);
  return vector;
}

HostValue host_unknown(DType dtype, ir::Dims dims, std::string reason) {
  HostValue value;
  value.dtype = dtype;
  value.dims = std::move(dims);
  value.form = HostValue::Form::kUnknown;
  value.reason = std::move(reason);
  return value;
}

Result<HostValue> host_from_tensor(const OnnxTensor& tensor) {
  if (!tensor.dtype)
    return error(ErrorCode::kInput, fmt::format("constant '{}' has type {}, which is not folded",
                                                tensor.name, onnx_type_name(tensor.type_code)));
  if (tensor.external)
    return error(ErrorCode::kInput,
                 fmt::format("constant '{}' lies in another file ({})", tensor.name, tensor.file));
  const int64_t count = tensor.element_count();
  if (count > kMaxHostElements)
    return error(ErrorCode::kInput,
                 fmt::format("constant '{}' has {} elements, more than {} can be folded",
                             tensor.name, count, kMaxHostElements));
  HostValue value;
  value.dtype = *tensor.dtype;
  value.dims.assign(tensor.dims.begin(), tensor.dims.end());
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(value.dtype)) {
      value.reals.push_back(read_real(value.dtype, element(tensor, i)));
      continue;
    }
    const int64_t number = read_integer(value.dtype, element(tensor, i));
    if (value.dtype == DType::kU64 && number < 0)
      return error(ErrorCode::kInput,
                   fmt::format("constant '{}' holds {}, more than a signed 64-bit number can say",
                               tensor.name, static_cast<uint64_t>(number)));
    value.ints.emplace_back(number);
  }
  return value;
}

Result<std::vector<int64_t>> constant_dims(const ir::Dims& dims) {
  std::vector<int64_t> numbers;
  for (const sym::Expr& dim : dims) {
    if (!dim.constant()) return error(ErrorCode::kInput, needs_number(dim));
    numbers.push_back(*dim.constant());
  }
  return numbers;
}

Result<HostValue> host_from_constant(const OnnxNode& node) {
  for (const auto& [name, attr] : node.attrs) {
    if (attr.tensor) return host_from_tensor(*attr.tensor);
    HostValue value;
    if (attr.real || name == "value_floats") {
      value.dtype = DType::kF32;
      value.reals = attr.real ? std::vector<double>{*attr.real} : attr.reals;
      if (!attr.real) value.dims = {sym::Expr(static_cast<int64_t>(attr.reals.size()))};
      return value;
    }
    if (attr.integer) return host_scalar(*attr.integer);
    if (name == "value_ints") return host_vector({attr.integers.begin(), attr.integers.end()});
  }
  return error(ErrorCode::kInput, "a Constant of a kind that is not read");
}

Result<int64_t> constant_count(const ir::Dims& dims) {
  LT_ASSIGN(const std::vector<int64_t> numbers, constant_dims(dims));
  int64_t count = 1;
  for (int64_t dim : numbers) {
    if (dim < 0)
      return error(ErrorCode::kInput, fmt::format("a constant with the negative dim {}", dim));
    if (__builtin_mul_overflow(count, dim, &count) || count > kMaxHostElements)
      return error(ErrorCode::kInput,
                   fmt::format("a constant of dims ({}) has more than {} elements",
                               fmt::join(numbers, ", "), kMaxHostElements));
  }
  return count;
}

Result<HostValue> densify(const HostValue& value) {
  if (value.form == HostValue::Form::kDense) return value;
  if (value.form == HostValue::Form::kUnknown) return error(ErrorCode::kInput, value.reason);
  LT_ASSIGN(const int64_t count, constant_count(value.dims));
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(value.dims));
  HostValue dense;
  dense.dtype = value.dtype;
  dense.dims = value.dims;
  std::vector<int64_t> index(extents.size());
  for (int64_t i = 0; i < count; ++i, next_index(index, extents))
    LT_RETURN_IF_ERROR(write_element(value, index, dense));
  return dense;
}

std::optional<HostValue> as_indexed(const HostValue& value) {
  if (value.form == HostValue::Form::kIndexed) return value;
  if (value.form != HostValue::Form::kDense) return std::nullopt;
  const size_t rank = value.dims.size();
  HostValue indexed;
  indexed.dtype = value.dtype;
  indexed.dims = value.dims;
  indexed.form = HostValue::Form::kIndexed;
  indexed.cell.integer = flat(0, rank);
  if (is_float(value.dtype)) {
    if (value.reals.empty()) return std::nullopt;
    for (double v : value.reals)
      if (std::bit_cast<uint64_t>(v) != std::bit_cast<uint64_t>(value.reals[0]))
        return std::nullopt;
    indexed.cell.real = indexed.cell.otherwise = value.reals[0];
    return indexed;
  }
  if (value.ints.empty()) return std::nullopt;
  const sym::Expr first = value.ints[0], step = value.ints.size() > 1 ? value.ints[1] - first : 0;
  for (size_t i = 1; i < value.ints.size(); ++i)
    if (!(value.ints[i] - value.ints[i - 1] == step)) return std::nullopt;
  if (value.dtype == DType::kBool) {
    if (!(step == sym::Expr(0))) return std::nullopt;
    indexed.cell.conditions = truth(!(first == sym::Expr(0)), rank);
    return indexed;
  }
  indexed.cell.integer = flat(first, rank);
  if (step == sym::Expr(0)) return indexed;
  const auto is_one = [](const sym::Expr& dim) { return dim == sym::Expr(1); };
  const auto varying = std::find_if_not(value.dims.begin(), value.dims.end(), is_one);
  if (std::find_if_not(varying + 1, value.dims.end(), is_one) != value.dims.end())
    return std::nullopt;
  indexed.cell.integer.slope[static_cast<size_t>(varying - value.dims.begin())] = step;
  return indexed;
}

Result<std::vector<sym::Expr>> host_ints(const HostValue& value) {
  if (is_float(value.dtype)) return error(ErrorCode::kInput, "floats where integers are expected");
  LT_ASSIGN(HostValue dense, densify(value));
  return std::move(dense.ints);
}

Result<std::vector<int64_t>> host_constants(const HostValue& value) {
  LT_ASSIGN(const std::vector<sym::Expr> ints, host_ints(value));
  std::vector<int64_t> numbers;
  for (const sym::Expr& v : ints) {
    if (!v.constant()) return error(ErrorCode::kInput, needs_number(v));
    numbers.push_back(*v.constant());
  }
  return numbers;
}

Result<std::vector<double>> host_reals(const HostValue& value) {
  if (is_float(value.dtype)) {
    LT_ASSIGN(HostValue dense, densify(value));
    return std::move(dense.reals);
  }
  LT_ASSIGN(const std::vector<int64_t> numbers, host_constants(value));
  return std::vector<double>(numbers.begin(), numbers.end());
}

Status check_elements(const HostValue& value) {
  for (const sym::Expr& dim : value.dims)
    if (dim.poisoned() || dim.constant().value_or(0) < 0)
      return error(ErrorCode::kInput, fmt::format("a value with a dim of {}", sym::print(dim)));
  if (value.form != HostValue::Form::kDense) return {};
  LT_ASSIGN(const int64_t count, constant_count(value.dims));
  const size_t ints = is_float(value.dtype) ? 0 : static_cast<size_t>(count);
  if (value.ints.size() == ints && value.reals.size() == static_cast<size_t>(count) - ints)
    return {};
  return error(ErrorCode::kInput,
               fmt::format("{} integers and {} reals for {} elements of type {}", value.ints.size(),
                           value.reals.size(), count, name(value.dtype)));
}

Result<std::string> host_bytes(const HostValue& value) {
  LT_RETURN_IF_ERROR(check_elements(value));
  std::string bytes;
  const auto width = static_cast<size_t>(size_bytes(value.dtype));
  if (is_float(value.dtype)) {
    LT_ASSIGN(const std::vector<double> reals, host_reals(value));
    bytes.resize(reals.size() * width);
    for (size_t i = 0; i < reals.size(); ++i)
      write_real(value.dtype, reals[i], bytes.data() + i * width);
    return bytes;
  }
  LT_ASSIGN(const std::vector<int64_t> numbers, host_constants(value));
  bytes.resize(numbers.size() * width);
  for (size_t i = 0; i < numbers.size(); ++i)
    write_integer(value.dtype, numbers[i], bytes.data() + i * width);
  return bytes;
}

std::string needs_number(const sym::Expr& expr) {
  if (expr.poisoned()) return "has a size that overflows 64 bits; smaller dims are needed";
  const std::vector<std::string> symbols = expr.symbols();
  std::string flags;
  for (const std::string& symbol : symbols) flags += fmt::format(" --dim {}=N", symbol);
  return fmt::format("needs the number of {}: give{}", fmt::join(symbols, ", "), flags);
}

sym::Expr wrap_to(DType dtype, const sym::Expr& value) {
  const auto number = value.constant();
  return number ? sym::Expr(wrapped(dtype, *number)) : value;
}

bool fits(DType dtype, const Affine& a, const ir::Dims& dims) {
  if (is_float(dtype) || dtype == DType::kBool) return true;
  const auto span = span_of(a, dims);
  if (dtype == DType::kU64) return !span || span->least >= 0;
  return !span || (wrap_to(dtype, span->least) == sym::Expr(span->least) &&
                   wrap_to(dtype, span->greatest) == sym::Expr(span->greatest));
}

void next_index(std::vector<int64_t>& index, std::span<const int64_t> extents) {
  for (size_t d = index.size(); d-- > 0;) {
    if (++index[d] < extents[d]) return;
    index[d] = 0;
  }
}

double round_to(DType dtype, double value) {
  return rounded(dtype, value);
}

}  // namespace lowtide::io
