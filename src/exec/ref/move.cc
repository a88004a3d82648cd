// Ops that move elements without computing with them. They work on any dtype.
#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// Reshape and Reorder: row-major contents stay what they are.
struct SameOrderKernel {
  template <class T>
  static void run(Call& call) {
    for (int64_t e = 0; e < call.in[0]->count(); ++e) copy_element(call.out[0], e, *call.in[0], e);
  }
};

struct TransposeKernel {
  template <class T>
  static void run(Call& call) {
    const Sizes own = row_major_strides(call.in[0]->dims);
    Sizes strides;
    for (const int64_t d : call.attrs.list("perm")) strides.push_back(own[static_cast<size_t>(d)]);
    for (Odometer at(call.out[0].dims); at.live(); at.next())
      copy_element(call.out[0], at.flat(), *call.in[0], at.dot(strides));
  }
};

struct SliceKernel {
  template <class T>
  static void run(Call& call) {
    const size_t rank = call.in[0]->dims.size();
    const Sizes own = row_major_strides(call.in[0]->dims);
    const Sizes starts = call.attrs.list("starts");
    const Sizes steps = call.attrs.list("steps", rank, 1);
    Sizes strides(rank);
    int64_t first = 0;
    for (size_t d = 0; d < rank; ++d) {
      strides[d] = own[d] * steps[d];
      first += own[d] * starts[d];
    }
    for (Odometer at(call.out[0].dims); at.live(); at.next())
      copy_element(call.out[0], at.flat(), *call.in[0], first + at.dot(strides));
  }
};

// Negative paddings cut.
struct PadKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const Sizes begins = call.attrs.list("begins");
    const Sizes strides = row_major_strides(x.dims);
    const double fill = call.attrs.real("value");
    for (Odometer at(y.dims); at.live(); at.next()) {
      int64_t from = 0;
      bool inside = true;
      for (size_t d = 0; d < x.dims.size(); ++d) {
        const int64_t i = at[d] - begins[d];
        inside = inside && i >= 0 && i < x.dims[d];
        from += i * strides[d];
      }
      if (inside) {
        copy_element(y, at.flat(), x, from);
      } else if (y.real()) {
        set<T>(y, at.flat(), static_cast<T>(fill));
      } else {
        set_int(y, at.flat(),
                y.dtype == DType::kBool ? fill != 0 : call.attrs.integer_of(y.dtype, "value", 0));
      }
    }
  }
};

struct ConcatKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    const Around whole = around(y.dims, call.attrs.integer("axis"));
    int64_t first = 0;
    for (const Tensor* x : call.in) {
      const Around piece = around(x->dims, call.attrs.integer("axis"));
      for (int64_t o = 0; o < piece.outer; ++o)
        for (int64_t a = 0; a < piece.axis; ++a)
          for (int64_t i = 0; i < piece.inner; ++i)
            copy_element(y, whole.at(o, first + a, i), *x, piece.at(o, a, i));
      first += piece.axis;
    }
  }
};

struct ExpandKernel {
  template <class T>
  static void run(Call& call) {
    const Sizes strides = broadcast_strides(call.in[0]->dims, call.out[0].dims);
    for (Odometer at(call.out[0].dims); at.live(); at.next())
      copy_element(call.out[0], at.flat(), *call.in[0], at.dot(strides));
  }
};

// Calls use(element of data, element of the gathered result); rows outside the data are left out.
template <class Use>
void for_each_gathered(const Sizes& data, const Tensor& indices, int64_t axis, const Use& use) {
  const Around rows = around(data, axis);
  const int64_t count = indices.count();
  for (int64_t o = 0; o < rows.outer; ++o)
    for (int64_t r = 0; r < count; ++r) {
      int64_t row = int_at(indices, r);
      if (row < 0) row += rows.axis;
      if (row < 0 || row >= rows.axis) continue;
      for (int64_t i = 0; i < rows.inner; ++i)
        use(rows.at(o, row, i), (o * count + r) * rows.inner + i);
    }
}

struct GatherKernel {
  template <class T>
  static void run(Call& call) {
    for_each_gathered(
        call.in[0]->dims, *call.in[1], call.attrs.integer("axis"),
        [&](int64_t from, int64_t to) { copy_element(call.out[0], to, *call.in[0], from); });
  }
};

struct GatherGradKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& ddata = call.out[0];
    for_each_gathered(
        ddata.dims, *call.in[1], call.attrs.integer("axis"),
        [&](int64_t to, int64_t from) { add<T>(ddata, to, get<T>(*call.in[0], from)); });
  }
};

struct FillKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    const double value = call.attrs.real("value");
    for (int64_t e = 0; e < y.count(); ++e) {
      if (y.real()) {
        set<T>(y, e, static_cast<T>(value));
      } else {
        set_int(y, e,
                y.dtype == DType::kBool ? value != 0 : call.attrs.integer_of(y.dtype, "value", 0));
      }
    }
  }
};

// Keeps the triangle on and above (upper) or on and below (lower) diagonal k of the last two
// dimensions.
struct TriluKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const size_t rank = x.dims.size();
    const bool upper = call.attrs.integer("upper", 1) != 0;
    const int64_t k = call.attrs.integer("k");
    for (Odometer at(x.dims); at.live(); at.next()) {
      const int64_t diagonal = at[rank - 1] - at[rank - 2];
      if (upper ? diagonal >= k : diagonal <= k) copy_element(call.out[0], at.flat(), x, at.flat());
    }
  }
};

}  // namespace

void add_move(KernelTable& table) {
  table["Reshape"] = kernel<SameOrderKernel>();
  table["Reorder"] = kernel<SameOrderKernel>();
  table["Transpose"] = kernel<TransposeKernel>();
  table["Slice"] = kernel<SliceKernel>();
  table["Pad"] = kernel<PadKernel>();
  table["Concat"] = table["Join"] = kernel<ConcatKernel>();
  table["Expand"] = kernel<ExpandKernel>();
  table["Gather"] = kernel<GatherKernel>();
  table["GatherGrad"] = kernel<GatherGradKernel>();
  table["Fill"] = kernel<FillKernel>();
  table["Trilu"] = kernel<TriluKernel>();
}

}  // namespace lowtide::ref
