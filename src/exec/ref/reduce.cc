// Reductions over a set of axes. A NaN is greater and less than any number and stays once it is
// met.
#include <cmath>
#include <limits>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// Strides with which the result is walked along the whole operand: 0 along the reduced axes.
Sizes reduced_strides(const Attributes& attrs, const Sizes& whole) {
  Sizes kept = whole;
  for (int64_t axis : attrs.list("axes")) {
    if (axis < 0) axis += static_cast<int64_t>(whole.size());
    kept[static_cast<size_t>(axis)] = 1;
  }
  return broadcast_strides(kept, whole);
}

struct ReduceKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const Sizes strides = reduced_strides(call.attrs, x.dims);
    begin(call.kind, y);
    for (Odometer at(x.dims); at.live(); at.next())
      y.real() ? fold<T>(call.kind, y, at.dot(strides), x, at.flat())
               : fold_integer(call.kind, y, at.dot(strides), x, at.flat());
    if (call.kind == "ReduceMean" && y.count() > 0)
      for (int64_t e = 0; e < y.count(); ++e) divide<T>(y, e, x.count() / y.count());
  }

 private:
  static void begin(std::string_view kind, Tensor& y) {
    for (int64_t e = 0; e < y.count(); ++e) {
      if (kind == "ReduceProd") y.real() ? set<double>(y, e, 1) : set_int(y, e, 1);
      if (kind == "ReduceMax") set_lowest(y, e);
      if (kind == "ReduceMin") set_highest(y, e);
    }
  }

  template <class T>
  static void fold(std::string_view kind, Tensor& y, int64_t to, const Tensor& x, int64_t from) {
    const T value = get<T>(x, from), so_far = get<T>(y, to);
    if (kind == "ReduceProd")
      set<T>(y, to, so_far * value);
    else if (kind != "ReduceMax" && kind != "ReduceMin")
      set<T>(y, to, so_far + value);
    else if (std::isnan(value) || (kind == "ReduceMax" ? value > so_far : value < so_far))
      set<T>(y, to, value);
  }

  static void fold_integer(std::string_view kind, Tensor& y, int64_t to, const Tensor& x,
                           int64_t from) {
    const uint64_t value = get<uint64_t>(x, from), so_far = get<uint64_t>(y, to);
    const int64_t a = int_at(x, from), b = int_at(y, to);
    if (kind == "ReduceProd")
      set<uint64_t>(y, to, so_far * value);
    else if (kind == "ReduceMean")  // divided before it is cut to the type's width
      set_int(y, to, static_cast<int64_t>(so_far + value));
    else if (kind == "ReduceSum")
      set<uint64_t>(y, to, so_far + value);
    else if (kind == "ReduceMax" ? int_less(y.dtype, b, a) : int_less(y.dtype, a, b))
      set_int(y, to, a);
  }

  // Means of integers are cut off; those of none are 0, of no float NaN.
  template <class T>
  static void divide(Tensor& y, int64_t e, int64_t count) {
    if (y.real())
      set<T>(y, e, get<T>(y, e) / static_cast<T>(count));
    else if (count == 0)
      set_int(y, e, 0);
    else if (y.dtype == DType::kU64)
      set<uint64_t>(y, e, get<uint64_t>(y, e) / static_cast<uint64_t>(count));
    else
      set_int(y, e, int_at(y, e) / count);
  }
};

struct ReduceProdGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1];
    const Sizes strides = reduced_strides(call.attrs, x.dims);
    for (Odometer at(x.dims); at.live(); at.next()) {
      T others = 1;
      for (Odometer other(x.dims); other.live(); other.next())
        if (other.dot(strides) == at.dot(strides) && other.flat() != at.flat())
          others *= get<T>(x, other.flat());
      set<T>(call.out[0], at.flat(), get<T>(dy, at.dot(strides)) * others);
    }
  }
};

// The definition, with the maximum taken out so that no exponential overflows.
struct LogSumExpKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const Sizes strides = reduced_strides(call.attrs, x.dims);
    std::vector<T> most(static_cast<size_t>(y.count()), -std::numeric_limits<T>::infinity());
    for (Odometer at(x.dims); at.live(); at.next()) {
      T& highest = most[static_cast<size_t>(at.dot(strides))];
      const T value = get<T>(x, at.flat());
      if (value > highest || std::isnan(value)) highest = value;
    }
    for (Odometer at(x.dims); at.live(); at.next()) {
      const int64_t to = at.dot(strides);
      add<T>(y, to, std::exp(get<T>(x, at.flat()) - most[static_cast<size_t>(to)]));
    }
    for (int64_t e = 0; e < y.count(); ++e) {
      const T highest = most[static_cast<size_t>(e)];
      set<T>(y, e, std::isfinite(highest) ? highest + std::log(get<T>(y, e)) : highest);
    }
  }
};

}  // namespace

void add_reduce(KernelTable& table) {
  for (const char* kind : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"})
    table[kind] = kernel<ReduceKernel>();
  table["ReduceLogSumExp"] = kernel<LogSumExpKernel>();
  table["ReduceProdGrad"] = kernel<ReduceProdGradKernel>();
}

}  // namespace lowtide::ref
