// Ops along one axis whose result says where something is, running sums, and ops that read or write
// at places given by data. An index below 0 counts from the end; one outside of its dimension reads
// zero and writes nothing.
#include "exec/ref/indexing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace lowtide::ref {
namespace {

// ---- along one axis ----

// Whether element a of x is larger than element b; a NaN is larger than any number.
bool larger(const Tensor& x, int64_t a, int64_t b) {
  if (!x.real()) return int_less(x.dtype, int_at(x, b), int_at(x, a));
  const double u = get<double>(x, a), v = get<double>(x, b);
  return u > v || (std::isnan(u) && !std::isnan(v));
}

// ArgMin: a NaN is smaller than any number.
bool smaller(const Tensor& x, int64_t a, int64_t b) {
  if (!x.real()) return int_less(x.dtype, int_at(x, a), int_at(x, b));
  const double u = get<double>(x, a), v = get<double>(x, b);
  return u < v || (std::isnan(u) && !std::isnan(v));
}

struct ArgExtremeKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Around line = around(x.dims, call.attrs.integer("axis"));
    const bool last = call.attrs.integer("last") != 0;
    const auto better = call.kind == "ArgMax" ? larger : smaller;
    for (int64_t o = 0; o < line.outer; ++o)
      for (int64_t i = 0; i < line.inner; ++i) {
        int64_t best = 0;
        for (int64_t a = 1; a < line.axis; ++a) {
          const int64_t here = line.at(o, a, i), there = line.at(o, best, i);
          if (better(x, here, there) || (last && !better(x, there, here))) best = a;
        }
        set_int(call.out[0], o * line.inner + i, best);
      }
  }
};

struct TopKKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Around line = around(x.dims, call.attrs.integer("axis"));
    const Around kept = around(call.out[0].dims, call.attrs.integer("axis"));
    const bool smallest = call.attrs.integer("smallest") != 0;
    std::vector<int64_t> places(static_cast<size_t>(line.axis));
    for (int64_t o = 0; o < line.outer; ++o)
      for (int64_t i = 0; i < line.inner; ++i) {
        std::iota(places.begin(), places.end(), int64_t{0});
        std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
          const int64_t at_a = line.at(o, a, i), at_b = line.at(o, b, i);
          return smallest ? larger(x, at_b, at_a) : larger(x, at_a, at_b);
        });
        for (int64_t k = 0; k < kept.axis; ++k) {
          const int64_t place = places[static_cast<size_t>(k)];
          copy_element(call.out[0], kept.at(o, k, i), x, line.at(o, place, i));
          set_int(call.out[1], kept.at(o, k, i), place);
        }
      }
  }
};

// Running sums or products: of all elements before the place (behind it, reversed), and of its own.
struct RunningKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const Around line = around(x.dims, call.attrs.integer("axis"));
    const bool exclusive = call.attrs.integer("exclusive") != 0;
    const bool reverse = call.attrs.integer("reverse") != 0, sums = call.kind == "CumSum";
    for (int64_t o = 0; o < line.outer; ++o)
      for (int64_t a = 0; a < line.axis; ++a)
        for (int64_t i = 0; i < line.inner; ++i) {
          double real = sums ? 0 : 1;
          uint64_t whole = sums ? 0 : 1;  // what is too large wraps around
          for (int64_t b = 0; b < line.axis; ++b) {
            const bool before = reverse ? b > a : b < a;
            if (!before && (exclusive || b != a)) continue;
            const int64_t from = line.at(o, b, i);
            const auto term = x.real() ? 0 : static_cast<uint64_t>(int_at(x, from));
            if (x.real())
              real = sums ? real + get<double>(x, from) : real * get<double>(x, from);
            else
              whole = sums ? whole + term : whole * term;
          }
          if (y.real())
            set<double>(y, line.at(o, a, i), real);
          else
            set_int(y, line.at(o, a, i), static_cast<int64_t>(whole));
        }
  }
};

struct OneHotKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    const Around line = around(y.dims, call.attrs.integer("axis"));
    for (int64_t o = 0; o < line.outer; ++o)
      for (int64_t a = 0; a < line.axis; ++a)
        for (int64_t i = 0; i < line.inner; ++i) {
          const int64_t index = int_at(*call.in[0], o * line.inner + i);
          const bool on = index == a || index + line.axis == a;
          copy_element(y, line.at(o, a, i), *call.in[1], on ? 1 : 0);
        }
  }
};

struct ReverseSequenceKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const auto time = static_cast<size_t>(call.attrs.integer("time_axis"));
    const auto batch = static_cast<size_t>(call.attrs.integer("batch_axis"));
    const Sizes strides = row_major_strides(x.dims);
    for (Odometer at(x.dims); at.live(); at.next()) {
      const int64_t length = int_at(*call.in[1], at[batch]);
      const int64_t last = std::min(length, x.dims[time]) - 1;
      const int64_t from = at[time] <= last ? last - at[time] : at[time];
      copy_element(call.out[0], at.flat(), x, at.flat() + (from - at[time]) * strides[time]);
    }
  }
};

// ---- at places given by data ----

std::optional<int64_t> place_of(int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  return place >= 0 && place < extent ? std::optional(place) : std::nullopt;
}

// Calls use(element of data, element of indices) for every index that names a place.
template <class Use>
void for_each_element(const Sizes& data, const Tensor& indices, int64_t axis, const Use& use) {
  const Sizes strides = row_major_strides(data);
  for (Odometer at(indices.dims); at.live(); at.next()) {
    const auto d = static_cast<size_t>(axis);
    const auto place = place_of(int_at(indices, at.flat()), data[d]);
    if (place) use(at.dot(strides) + (*place - at[d]) * strides[d], at.flat());
  }
}

// Calls use(element of data, element of the blocks) for every element of every block whose tuple
// names a place.
template <class Use>
void for_each_block(const Sizes& data, const Tensor& indices, int64_t batch_dims, const Use& use) {
  const int64_t width = indices.dims.back();
  const Sizes strides = row_major_strides(data);
  const Sizes lead(indices.dims.begin(), indices.dims.end() - 1);
  const Sizes block(data.begin() + batch_dims + width, data.end());
  const int64_t length = product(block);
  for (Odometer at(lead); at.live(); at.next()) {
    int64_t start = 0;
    bool inside = true;
    for (int64_t d = 0; d < batch_dims + width; ++d) {
      const auto dim = static_cast<size_t>(d);
      const int64_t index =
          d < batch_dims ? at[dim] : int_at(indices, at.flat() * width + d - batch_dims);
      const auto place = place_of(index, data[dim]);
      inside = inside && place.has_value();
      start += place.value_or(0) * strides[dim];
    }
    for (int64_t i = 0; inside && i < length; ++i) use(start + i, at.flat() * length + i);
  }
}

struct GatherElementsKernel {
  template <class T>
  static void run(Call& call) {
    for_each_element(
        call.in[0]->dims, *call.in[1], call.attrs.integer("axis"),
        [&](int64_t from, int64_t to) { copy_element(call.out[0], to, *call.in[0], from); });
  }
};

struct GatherNdKernel {
  template <class T>
  static void run(Call& call) {
    for_each_block(
        call.in[0]->dims, *call.in[1], call.attrs.integer("batch_dims"),
        [&](int64_t from, int64_t to) { copy_element(call.out[0], to, *call.in[0], from); });
  }
};

template <class N>
N reduced(std::string_view reduction, N a, N b) {
  if (reduction == "add") return a + b;
  if (reduction == "mul") return a * b;
  if (std::isnan(static_cast<double>(a))) return a;
  return (reduction == "max" ? a > b : a < b) ? a : b;
}

// Sums and products modulo 2^64.
int64_t reduced_integers(std::string_view reduction, DType dtype, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (reduction == "add") return static_cast<int64_t>(x + y);
  if (reduction == "mul") return static_cast<int64_t>(x * y);
  return int_less(dtype, a, b) == (reduction == "max") ? b : a;
}

struct ScatterKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    const Tensor& updates = *call.in[2];
    y.f = call.in[0]->f;
    y.i = call.in[0]->i;
    const std::string word = call.attrs.word("reduction");
    const auto write = [&](int64_t to, int64_t from) {
      if (word.empty() || word == "none") {
        copy_element(y, to, updates, from);
      } else if (y.real()) {
        set<T>(y, to, reduced<T>(word, get<T>(y, to), get<T>(updates, from)));
      } else {
        set_int(y, to, reduced_integers(word, y.dtype, int_at(y, to), int_at(updates, from)));
      }
    };
    if (call.kind == "ScatterND")
      for_each_block(y.dims, *call.in[1], call.attrs.integer("batch_dims"), write);
    else
      for_each_element(y.dims, *call.in[1], call.attrs.integer("axis"), write);
  }
};

}  // namespace

void add_indexing(KernelTable& table) {
  table["ArgMax"] = kernel<ArgExtremeKernel>();
  table["ArgMin"] = kernel<ArgExtremeKernel>();
  table["TopK"] = kernel<TopKKernel>();
  table["CumSum"] = kernel<RunningKernel>();
  table["CumProd"] = kernel<RunningKernel>();
  table["ReverseSequence"] = kernel<ReverseSequenceKernel>();
  table["OneHot"] = kernel<OneHotKernel>();
  table["GatherElements"] = kernel<GatherElementsKernel>();
  table["ScatterElements"] = kernel<ScatterKernel>();
  table["GatherND"] = kernel<GatherNdKernel>();
  table["ScatterND"] = kernel<ScatterKernel>();
}

}  // namespace lowtide::ref
