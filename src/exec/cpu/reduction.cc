// ReduceSum, ReduceMean, ReduceProd, ReduceMax and ReduceMin over any axes of any plain layout or
// strided view, on any type that is computed. Dims are put in the order of memory and neighbours of
// one kind (kept or reduced) joined. What is left is a nest whose innermost dim is either reduced
// (rows are folded) or kept (rows are folded into each other). A unit of work is one kept index of
// the outer dims, or a group of kept columns; when there are few units, the outermost reduced dim
// is cut into chunks whose partial results lie in the workspace.
//
// Integers wrap around, as ONNX Runtime's do. A NaN is greater and less than any number. What
// nothing is folded into is what a fold begins with: 0, 1, the least or the greatest value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

struct AxisLoop {
  int64_t extent, in_stride, out_stride;
};

struct Plan {
  bool inner_reduced = true;
  int64_t inner = 1;                   // extent of the innermost dim, contiguous in x
  int64_t inner_out = 1;               // its stride in y (kept case)
  std::vector<AxisLoop> kept = {};     // outer dims
  std::vector<AxisLoop> reduced = {};  // outer dims
  int64_t units = 1;                   // product of kept extents
  int64_t columns = 1;                 // groups of kColumns of a kept innermost dim
  int64_t rows = 1;                    // product of reduced extents
  int64_t chunks = 1, per_chunk = 1;   // of rows
  bool mean = false;
  int64_t count = 1;   // of elements that are folded into one
  int64_t empty = -1;  // elements of y when x has none

  int64_t slot() const { return inner_reduced ? 1 : std::min(kColumns, inner); }
};

// ---- folds ----

// What elements are folded into: integers of 64 bits, of which the result takes the lowest, so that
// sums and products wrap around and means do not; without a sign where C++ would not wrap.
template <class T>
using Acc = std::conditional_t<std::is_floating_point_v<T>, T,
                               std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
// What a row is folded into.
template <class T>
using Total = std::conditional_t<std::is_same_v<T, float>, double, Acc<T>>;
template <class A>
using WrappedSum = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;

struct Sum {
  template <class T>
  static constexpr T first() {
    return T(0);
  }
  template <class A>
  static A both(A a, A b) {
    return static_cast<A>(static_cast<WrappedSum<A>>(a) + static_cast<WrappedSum<A>>(b));
  }
};

struct Product {
  template <class T>
  static constexpr T first() {
    return T(1);
  }
  template <class A>
  static A both(A a, A b) {
    return static_cast<A>(static_cast<WrappedSum<A>>(a) * static_cast<WrappedSum<A>>(b));
  }
};

struct Greatest {
  template <class T>
  static constexpr T first() {
    constexpr bool kInfinite = std::numeric_limits<T>::has_infinity;
    return static_cast<T>(kInfinite ? -std::numeric_limits<T>::infinity()
                                    : std::numeric_limits<T>::lowest());
  }
  template <class A>
  static A both(A a, A b) {
    return b > a || is_nan(b) ? b : a;
  }
};

struct Least {
  template <class T>
  static constexpr T first() {
    constexpr bool kInfinite = std::numeric_limits<T>::has_infinity;
    return kInfinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class A>
  static A both(A a, A b) {
    return b < a || is_nan(b) ? b : a;
  }
};

// One fold on one type.
template <class T>
struct Folds {
  Acc<T> first;
  Total<T> (*row)(const T* x, int64_t n);
  void (*rows)(const T* x, int64_t rows, int64_t stride, int64_t cols, Acc<T>* acc);
  Total<T> (*both_totals)(Total<T> a, Total<T> b);
  Acc<T> (*both)(Acc<T> a, Acc<T> b);
};

template <class F, class T>
Total<T> fold_row(const T* x, int64_t n) {
  auto total = static_cast<Total<T>>(F::template first<T>());
  for (int64_t i = 0; i < n; ++i) total = F::both(total, static_cast<Total<T>>(x[i]));
  return total;
}

template <class F, class T>
void fold_rows(const T* x, int64_t rows, int64_t stride, int64_t cols, Acc<T>* acc) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      acc[c] = F::both(acc[c], static_cast<Acc<T>>(x[r * stride + c]));
}

template <class F, class T>
Folds<T> plain_folds() {
  return {static_cast<Acc<T>>(F::template first<T>()), fold_row<F, T>, fold_rows<F, T>,
          F::template both<Total<T>>, F::template both<Acc<T>>};
}

double row_max(const float* x, int64_t n) {
  return loops().max(x, n);
}
double row_sum(const float* x, int64_t n) {
  return loops().sum(x, n);
}

template <class T>
Folds<T> folds_of(const std::string& kind) {
  if (kind == "ReduceProd") return plain_folds<Product, T>();
  if (kind == "ReduceMin") return plain_folds<Least, T>();
  Folds<T> folds = kind == "ReduceMax" ? plain_folds<Greatest, T>() : plain_folds<Sum, T>();
  if constexpr (std::is_same_v<T, float>) {
    const bool max = kind == "ReduceMax";
    folds.rows = max ? loops().max_rows : loops().sum_rows;
    folds.row = max ? row_max : row_sum;
  }
  return folds;
}

// ---- running ----

int64_t offset_of(const std::vector<AxisLoop>& loops_of, int64_t index, int64_t AxisLoop::*stride) {
  int64_t offset = 0;
  for (size_t d = loops_of.size(); d-- > 0;) {
    offset += index % loops_of[d].extent * (loops_of[d].*stride);
    index /= loops_of[d].extent;
  }
  return offset;
}

template <class T>
class TypedReduction {
 public:
  using A = Acc<T>;

  TypedReduction(Plan plan, const std::string& kind) : p_(std::move(plan)), f_(folds_of<T>(kind)) {}

  int64_t workspace_bytes() const {
    const int64_t partial = p_.chunks > 1 ? p_.units * p_.columns * p_.chunks * p_.slot() : 0;
    return partial * static_cast<int64_t>(sizeof(A));
  }

  // Unit u is kept index u / columns, column group u % columns; piece (u, chunk) reduces some of
  // its rows.
  void run(const KernelArgs& args) const {
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* y = static_cast<T*>(args.outputs[0]);
    A* partial = static_cast<A*>(args.workspace);
    if (p_.empty >= 0) return std::fill(y, y + p_.empty, finished(f_.first));
    const int64_t units = p_.units * p_.columns, slot = p_.slot();
    const int64_t work = p_.rows / p_.chunks * (p_.inner_reduced ? p_.inner : slot);
    parallel_ranges(units * p_.chunks, 1 + 16384 / std::max<int64_t>(work, 1),
                    [&](int64_t begin, int64_t end) {
                      A acc[kColumns];
                      for (int64_t piece = begin; piece < end; ++piece) {
                        const int64_t unit = piece / p_.chunks;
                        reduce_piece(x, piece, acc);
                        if (p_.chunks == 1)
                          store(acc, width_of(unit), out_of(y, unit));
                        else
                          std::copy(acc, acc + width_of(unit), partial + piece * slot);
                      }
                    });
    if (p_.chunks == 1) return;
    for (int64_t unit = 0; unit < units; ++unit) {
      A* total = partial + unit * p_.chunks * slot;
      for (int64_t chunk = 1; chunk < p_.chunks; ++chunk)
        merge(total + chunk * slot, width_of(unit), total);
      store(total, width_of(unit), out_of(y, unit));
    }
  }

 private:
  int64_t width_of(int64_t unit) const {
    return p_.inner_reduced ? 1 : std::min(kColumns, p_.inner - unit % p_.columns * kColumns);
  }

  T* out_of(T* y, int64_t unit) const {
    return y + offset_of(p_.kept, unit / p_.columns, &AxisLoop::out_stride) +
           unit % p_.columns * kColumns * p_.inner_out;
  }

  void reduce_piece(const T* x, int64_t piece, A* acc) const {
    const int64_t unit = piece / p_.chunks, chunk = piece % p_.chunks;
    const T* from = x + offset_of(p_.kept, unit / p_.columns, &AxisLoop::in_stride) +
                    unit % p_.columns * kColumns;
    const int64_t first = chunk * p_.per_chunk, last = std::min(p_.rows, first + p_.per_chunk);
    if (p_.inner_reduced)
      acc[0] = reduce_row_unit(from, first, last);
    else
      reduce_column_unit(from, first, last, width_of(unit), acc);
  }

  // Reduces rows [begin, end) of one unit: into one element, or into `width` columns.
  A reduce_row_unit(const T* x, int64_t begin, int64_t end) const {
    Total<T> total = static_cast<Total<T>>(f_.first);
    for (int64_t row = begin; row < end; ++row)
      total = f_.both_totals(
          total, f_.row(x + offset_of(p_.reduced, row, &AxisLoop::in_stride), p_.inner));
    return static_cast<A>(total);
  }

  void reduce_column_unit(const T* x, int64_t begin, int64_t end, int64_t width, A* acc) const {
    std::fill(acc, acc + width, f_.first);
    // Whole lines of the innermost reduced dim where the range covers them.
    const int64_t line = p_.reduced.empty() ? 1 : p_.reduced.back().extent;
    const int64_t stride = p_.reduced.empty() ? 0 : p_.reduced.back().in_stride;
    for (int64_t row = begin; row < end;) {
      const int64_t count = std::min(end - row, line - row % line);
      f_.rows(x + offset_of(p_.reduced, row, &AxisLoop::in_stride), count, stride, width, acc);
      row += count;
    }
  }

  void merge(const A* part, int64_t width, A* acc) const {
    for (int64_t c = 0; c < width; ++c) acc[c] = f_.both(acc[c], part[c]);
  }

  void store(const A* acc, int64_t width, T* y) const {
    for (int64_t c = 0; c < width; ++c) y[c * p_.inner_out] = finished(acc[c]);
  }
  // Means of integers are cut off, those of no integer are 0.
  T finished(A total) const {
    if (!p_.mean) return static_cast<T>(total);
    if constexpr (std::is_integral_v<T>)
      return p_.count == 0 ? T(0) : static_cast<T>(total / static_cast<A>(p_.count));
    else
      return total / static_cast<T>(p_.count);
  }

  Plan p_;
  Folds<T> f_;
};

// Strides of y over x's dims; 0 for reduced ones.
Result<Dims> out_strides(const OpDesc& op, const std::vector<bool>& reduced) {
  const TensorDesc& x = *op.inputs[0];
  const TensorDesc& y = op.outputs[0];
  const Dims own = strides_of(y);
  Dims strides(x.dims.size(), 0);
  const bool keeps = y.dims.size() == x.dims.size();
  size_t k = 0;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (keeps) k = d;
    if (!reduced[d]) {
      if (k >= own.size()) return unsupported(op, "the output's rank does not match the axes");
      strides[d] = own[k];
    }
    if (!keeps && !reduced[d]) ++k;
  }
  return strides;
}

void cut(Plan& p) {
  for (const AxisLoop& loop : p.kept) p.units *= loop.extent;
  for (const AxisLoop& loop : p.reduced) p.rows *= loop.extent;
  if (!p.inner_reduced) p.columns = (p.inner + kColumns - 1) / kColumns;
  if (p.units * p.columns < 16 && p.rows >= 64) p.chunks = std::min<int64_t>(32, p.rows / 32);
  p.per_chunk = (p.rows + p.chunks - 1) / p.chunks;
  p.chunks = (p.rows + p.per_chunk - 1) / p.per_chunk;
}

// Which dims of an operand the axes name.
Result<std::vector<bool>> reduced_dims(const OpDesc& op, const TensorDesc& x) {
  std::vector<bool> reduced(x.dims.size(), false);
  Dims all(x.dims.size());
  for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
  const Dims axes = list_attr(op, "axes", all);
  for (int64_t axis : axes) {
    const int64_t d = axis < 0 ? axis + static_cast<int64_t>(x.dims.size()) : axis;
    if (d < 0 || d >= static_cast<int64_t>(x.dims.size()))
      return unsupported(op, "an axis is out of range");
    reduced[static_cast<size_t>(d)] = true;
  }
  return reduced;
}

Result<Plan> make_plan(const OpDesc& op) {
  const TensorDesc& x = *op.inputs[0];
  LT_ASSIGN(const std::vector<bool> reduced, reduced_dims(op, x));
  LT_ASSIGN(const Dims out, out_strides(op, reduced));
  Plan p{.mean = op.kind == "ReduceMean"};
  // A third operand keeps kept and reduced dims from being joined.
  Dims mark(x.dims.size());
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (reduced[d]) p.count *= x.dims[d];
  }
  if (plan::element_count(x) == 0) {
    p.empty = plan::element_count(op.outputs[0]);
    return p;
  }
  const Dims in = strides_of(x);
  for (size_t d = 0; d < mark.size(); ++d)
    mark[d] = !reduced[d] ? 0 : in[d] != 0 ? in[d] : -1;  // -1: not joined, as an expanded dim
  Nest nest = make_nest(x.dims, {in, out, mark});
  if (nest.strides[0].back() != 1) {  // a strided view: columns of one element
    nest.dims.push_back(1);
    for (size_t k : {0, 1}) nest.strides[k].push_back(1);
    nest.strides[2].push_back(0);
  }
  const size_t last = nest.dims.size() - 1;
  for (size_t d = 0; d < last; ++d)
    (nest.strides[2][d] != 0 ? p.reduced : p.kept)
        .push_back({nest.dims[d], nest.strides[0][d], nest.strides[1][d]});
  p.inner = nest.dims[last];
  p.inner_reduced = nest.strides[2][last] != 0;
  p.inner_out = p.inner_reduced ? 1 : nest.strides[1][last];
  cut(p);
  return p;
}

template <class T>
Result<Built> build_typed(const OpDesc& op) {
  LT_ASSIGN(Plan made, make_plan(op));
  const auto reduction = std::make_shared<const TypedReduction<T>>(std::move(made), op.kind);
  Built built;
  built.workspace_bytes = reduction->workspace_bytes();
  built.run = [reduction](const KernelArgs& args) { reduction->run(args); };
  return built;
}

Result<Built> build_reduction(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  switch (op.outputs[0].dtype) {
    case DType::kF32:
      return build_typed<float>(op);
    case DType::kF64:
      return build_typed<double>(op);
    case DType::kI64:
      return build_typed<int64_t>(op);
    case DType::kI32:
      return build_typed<int32_t>(op);
    case DType::kI16:
      return build_typed<int16_t>(op);
    case DType::kI8:
      return build_typed<int8_t>(op);
    case DType::kU64:
      return build_typed<uint64_t>(op);
    case DType::kU32:
      return build_typed<uint32_t>(op);
    case DType::kU16:
      return build_typed<uint16_t>(op);
    case DType::kU8:
      return build_typed<uint8_t>(op);
    case DType::kBool:
      return build_typed<bool>(op);
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return unsupported(op, "this element type");
}

// ---- the gradient of a product ----

// The product of all elements but one: what is finite and not zero is multiplied and divided by the
// one; zeros, infinities and NaNs are counted, since no quotient takes them back.
class Others {
 public:
  void add(double value) {
    if (std::isnan(value))
      ++nans_;
    else if (value == 0)
      ++zeros_;
    else
      multiply(factor(value), 1);
    infinities_ += std::isinf(value) ? 1 : 0;
  }
  double without(double value) const {
    const bool nan = std::isnan(value);
    const int64_t zeros = zeros_ - (value == 0 ? 1 : 0);
    const int64_t infinities = infinities_ - (std::isinf(value) ? 1 : 0);
    if (nans_ > (nan ? 1 : 0) || (zeros > 0 && infinities > 0)) return std::nan("");
    if (zeros > 0) return 0;
    Others others = *this;
    if (!nan && value != 0) others.multiply(factor(value), -1);
    if (infinities > 0)
      return std::copysign(std::numeric_limits<double>::infinity(), others.product_);
    return std::ldexp(others.product_,
                      static_cast<int>(std::clamp<int64_t>(others.exponent_, -4096, 4096)));
  }

 private:
  static double factor(double value) {
    return std::isinf(value) ? std::copysign(1.0, value) : value;
  }
  // The exponent is kept apart, so that nothing is too large or too small on the way.
  void multiply(double value, int sign) {
    int power = 0;
    const double part = std::frexp(value, &power);
    product_ = sign > 0 ? product_ * part : product_ / part;
    exponent_ += sign * power;
    product_ = std::frexp(product_, &power);
    exponent_ += power;
  }

  double product_ = 1;
  int64_t exponent_ = 0;
  int64_t zeros_ = 0, infinities_ = 0, nans_ = 0;
};

struct ProductGradient {
  std::vector<AxisLoop> kept, reduced;
  int64_t units = 1, count = 1;

  template <class T>
  void run(const T* dy, const T* x, T* dx) const {
    parallel_ranges(units, 1 + 4096 / std::max<int64_t>(count, 1), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = offset_of(kept, unit, &AxisLoop::in_stride);
        one_product(x + first, static_cast<double>(dy[unit]), dx + first);
      }
    });
  }

 private:
  // dx may lie where x does.
  template <class T>
  void one_product(const T* x, double dy, T* dx) const {
    Others others;
    for (int64_t i = 0; i < count; ++i)
      others.add(static_cast<double>(x[offset_of(reduced, i, &AxisLoop::in_stride)]));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = offset_of(reduced, i, &AxisLoop::in_stride);
      dx[at] = static_cast<T>(dy * others.without(static_cast<double>(x[at])));
    }
  }
};

Result<Built> build_product_gradient(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  for (const TensorDesc& type : {*op.inputs[0], *op.inputs[1], op.outputs[0]})
    if (!same_order(type, {.dtype = type.dtype, .dims = type.dims, .layout = {}}))
      return unsupported(op, "operands must be row-major");
  const TensorDesc& x = *op.inputs[1];
  LT_ASSIGN(const std::vector<bool> reduced, reduced_dims(op, x));
  const Dims strides = strides_of(x);
  ProductGradient gradient;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    (reduced[d] ? gradient.reduced : gradient.kept).push_back({x.dims[d], strides[d], 0});
    (reduced[d] ? gradient.count : gradient.units) *= x.dims[d];
  }
  if (plan::element_count(*op.inputs[0]) != gradient.units)
    return unsupported(op, "the gradient's dims do not match the axes");
  Built built;
  built.run = [gradient, wide = x.dtype == DType::kF64](const KernelArgs& args) {
    const auto run = [&](auto* dx) {
      using T = std::remove_pointer_t<decltype(dx)>;
      gradient.run(static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
                   dx);
    };
    wide ? run(static_cast<double*>(args.outputs[0])) : run(static_cast<float*>(args.outputs[0]));
  };
  return built;
}

constexpr std::string_view kReducible = "f32 f64 i64 i32 i16 i8 u64 u32 u16 u8";
constexpr std::string_view kOrdered = "f32 f64 i64 i32 i16 i8 u64 u32 u16 u8 bool";

constexpr Entry kReductionEntries[] = {
    {"ReduceSum", "T -> T", kReducible, build_reduction, nullptr, false, "0", true},
    {"ReduceMean", "T -> T", kReducible, build_reduction, nullptr, false, {}, true},
    {"ReduceProd", "T -> T", kReducible, build_reduction, nullptr, false, {}, true},
    {"ReduceMax", "T -> T", kOrdered, build_reduction, nullptr, false, {}, true},
    {"ReduceMin", "T -> T", kOrdered, build_reduction, nullptr, false, {}, true},
    {"ReduceProdGrad", "T T -> T", "f32 f64", build_product_gradient, wish_row_major},
};

}  // namespace

std::span<const Entry> reduction_kernels() {
  return kReductionEntries;
}

}  // namespace lowtide::exec_cpu
