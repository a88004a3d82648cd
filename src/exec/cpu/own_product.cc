#include "exec/cpu/own_product.h"

#include <type_traits>
#include <utility>

#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrainProducts = 32768;  // multiply-adds per thread that are worth a thread
// Rows that are computed together, a tile of columns at a time: a row of the right operand's tile
// then is read from memory once for all of them.
constexpr int64_t kRows = 8;
constexpr int64_t kTile = 256;

// What integers are multiplied and added as: without a sign they wrap around.
template <class T>
using Wrapped = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                            std::type_identity<T>>::type;

template <class T>
void add_product(T& sum, T a, T b) {
  using W = Wrapped<T>;
  sum = static_cast<T>(static_cast<W>(sum) + static_cast<W>(a) * static_cast<W>(b));
}

// One matrix of the batch with its strides.
template <class T>
struct Matrix {
  T* data;
  int64_t row, column;
};

// Adds to columns [begin, end) of one row of c element i of the row of a times row i of b.
template <class T>
void add_scaled_row(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                    int64_t r, int64_t i, int64_t begin, int64_t end) {
  const T scale = a.data[r * a.row + i * a.column];
  const T* from = b.data + i * b.row;
  T* to = c.data + r * c.row;
  if (b.column == 1 && c.column == 1) {
    for (int64_t j = begin; j < end; ++j) add_product(to[j], scale, from[j]);
  } else {
    for (int64_t j = begin; j < end; ++j) add_product(to[j * c.column], scale, from[j * b.column]);
  }
}

// The product of row r of a and column j of b, added to `sum`.
template <class T>
T add_dot(T sum, const Matrix<const T>& a, const Matrix<const T>& b, int64_t r, int64_t j,
          int64_t k) {
  const T* row = a.data + r * a.row;
  const T* column = b.data + j * b.column;
  for (int64_t i = 0; i < k; ++i) add_product(sum, row[i * a.column], column[i * b.row]);
  return sum;
}

// Where matrix number `index` of c's batch begins in x; broadcast dims do not move.
int64_t batch_offset(const StridedMatrix& x, const StridedMatrix& c, int64_t index) {
  int64_t offset = 0;
  for (size_t d = c.dims.size() - 2; d-- > 0;) {
    if (x.dims[d] != 1) offset += index % c.dims[d] * x.strides[d];
    index /= c.dims[d];
  }
  return offset;
}

template <class T>
class OwnProduct {
 public:
  OwnProduct(const OpDesc& op, StridedMatrix a, StridedMatrix b, StridedMatrix c)
      : a_(std::move(a)),
        b_(std::move(b)),
        c_(std::move(c)),
        biased_(has_input(op, 2)),
        accumulates_(has_input(op, 3)) {
    const size_t rank = c_.dims.size();
    m_ = c_.dims[rank - 2];
    n_ = c_.dims[rank - 1];
    k_ = a_.dims[rank - 1];
    for (size_t d = 0; d + 2 < rank; ++d) batch_ *= c_.dims[d];
  }

  void run(const KernelArgs& args) const {
    const int64_t groups = (m_ + kRows - 1) / kRows;
    const int64_t products = std::min(m_, kRows) * n_ * k_;
    const int64_t grain = kGrainProducts / std::max<int64_t>(1, products);
    parallel_ranges(batch_ * groups, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % groups * kRows;
        rows(args, unit / groups, first, std::min(m_, first + kRows));
      }
    });
  }

 private:
  template <class U>
  static Matrix<U> matrix(U* data, const StridedMatrix& x, const StridedMatrix& c, int64_t index) {
    return {data + batch_offset(x, c, index), x.strides[x.strides.size() - 2], x.strides.back()};
  }

  // Rows [first, last) of matrix number `index`.
  void rows(const KernelArgs& args, int64_t index, int64_t first, int64_t last) const {
    const auto a = matrix(static_cast<const T*>(args.inputs[0]), a_, c_, index);
    const auto b = matrix(static_cast<const T*>(args.inputs[1]), b_, c_, index);
    const auto c = matrix(static_cast<T*>(args.outputs[0]), c_, c_, index);
    for (int64_t r = first; r < last; ++r) begin_row(args, index, c, r);
    if (n_ == 1 || (b.column != 1 && b.row == 1)) {
      for (int64_t r = first; r < last; ++r)
        for (int64_t j = 0; j < n_; ++j) {
          T& sum = c.data[r * c.row + j * c.column];
          sum = add_dot(sum, a, b, r, j, k_);
        }
      return;
    }
    const int64_t tile = last - first == 1 ? n_ : kTile;
    for (int64_t j = 0; j < n_; j += tile)
      for (int64_t i = 0; i < k_; ++i)
        for (int64_t r = first; r < last; ++r)
          add_scaled_row(a, b, c, r, i, j, std::min(n_, j + tile));
  }

  // What the products are added to: bias and accumulator, which may lie where c does.
  void begin_row(const KernelArgs& args, int64_t index, const Matrix<T>& c, int64_t r) const {
    const T* bias = biased_ ? static_cast<const T*>(args.inputs[2]) : nullptr;
    const T* more = nullptr;
    if (accumulates_)
      more = matrix(static_cast<const T*>(args.inputs[3]), c_, c_, index).data + r * c.row;
    T* row = c.data + r * c.row;
    for (int64_t j = 0; j < n_; ++j) {
      const T of_bias = bias != nullptr ? bias[j] : T(0);
      const T of_sum = more != nullptr ? more[j * c.column] : T(0);
      row[j * c.column] =
          static_cast<T>(static_cast<Wrapped<T>>(of_bias) + static_cast<Wrapped<T>>(of_sum));
    }
  }

  StridedMatrix a_, b_, c_;
  bool biased_, accumulates_;
  int64_t m_ = 0, n_ = 0, k_ = 0, batch_ = 1;
};

template <class T>
Built make(const OpDesc& op, StridedMatrix a, StridedMatrix b, StridedMatrix c) {
  Built built;
  built.run = [product = OwnProduct<T>(op, std::move(a), std::move(b), std::move(c))](
                  const KernelArgs& args) { product.run(args); };
  return built;
}

}  // namespace

bool is_thin(const StridedMatrix& a, const StridedMatrix& c) {
  return c.dims[c.dims.size() - 2] <= 1 || c.dims.back() <= 1 || a.dims.back() <= 1;
}

Result<Built> make_own_product(const OpDesc& op, StridedMatrix a, StridedMatrix b,
                               StridedMatrix c) {
  switch (op.outputs[0].dtype) {
    case DType::kF32:
      return make<float>(op, std::move(a), std::move(b), std::move(c));
    case DType::kF64:
      return make<double>(op, std::move(a), std::move(b), std::move(c));
    case DType::kI64:
    case DType::kU64:  // the same bits
      return make<int64_t>(op, std::move(a), std::move(b), std::move(c));
    case DType::kI32:
    case DType::kU32:
      return make<int32_t>(op, std::move(a), std::move(b), std::move(c));
    default:
      return unsupported(op, "own products are of f32, f64 and integers of 32 or 64 bits");
  }
}

}  // namespace lowtide::exec_cpu
