// Reductions over a set of axes.
#include <limits>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

struct ReduceKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const bool is_max = call.kind == "ReduceMax";
    Sizes kept = x.dims;
    for (int64_t axis : call.attrs.list("axes")) {
      if (axis < 0) axis += static_cast<int64_t>(x.dims.size());
      kept[static_cast<size_t>(axis)] = 1;
    }
    const Sizes strides = broadcast_strides(kept, x.dims);
    if (is_max)
      for (int64_t e = 0; e < y.count(); ++e) lowest(y, e);
    for (Odometer at(x.dims); at.live(); at.next())
      is_max ? raise<T>(y, at.dot(strides), x, at.flat())
             : sum<T>(y, at.dot(strides), x, at.flat());
    if (call.kind == "ReduceMean" && y.count() > 0) {
      const int64_t elements = x.count() / y.count();  // exact: the reduced extents' product
      const T count = static_cast<T>(elements);
      for (int64_t e = 0; e < y.count(); ++e) set<T>(y, e, get<T>(y, e) / count);
    }
  }

 private:
  static void lowest(Tensor& y, int64_t e) {
    if (y.real()) {
      set<double>(y, e, -std::numeric_limits<double>::infinity());
    } else {
      set_int(y, e, std::numeric_limits<int64_t>::min());
    }
  }
  template <class T>
  static void sum(Tensor& y, int64_t to, const Tensor& x, int64_t from) {
    if (y.real()) {
      add<T>(y, to, get<T>(x, from));
    } else {
      set_int(y, to, int_at(y, to) + int_at(x, from));
    }
  }
  template <class T>
  static void raise(Tensor& y, int64_t to, const Tensor& x, int64_t from) {
    if (y.real()) {
      if (!(get<T>(x, from) <= get<T>(y, to))) set<T>(y, to, get<T>(x, from));
    } else {
      set_int(y, to, std::max(int_at(y, to), int_at(x, from)));
    }
  }
};

}  // namespace

void add_reduce(KernelTable& table) {
  for (const char* kind : {"ReduceSum", "ReduceMean", "ReduceMax"})
    table[kind] = kernel<ReduceKernel>();
}

}  // namespace lowtide::ref
