// ArgMax, ArgMin, TopK, CumSum and CumProd: row-major tensors of any number type, seen as [outer,
// extent, inner] around the axis. A search and a sum walk groups of neighbouring columns together,
// so that memory is read in its order whatever the axis; a TopK keeps a heap of places in its own
// output, the worst kept one on top, and needs no scratch: O(extent log count) for each line.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "exec/cpu/indexing.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGroup = 64;  // columns that are walked together

Result<AxisView> view_of(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_row_major(op));
  const int64_t axis = int_attr(op, "axis", 0);
  const std::vector<int64_t>& dims = op.inputs[0]->dims;
  if (axis < 0 || axis >= static_cast<int64_t>(dims.size()))
    return unsupported(op, "the axis is out of range");
  AxisView view{.outer = 1, .extent = dims[static_cast<size_t>(axis)], .inner = 1};
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != static_cast<size_t>(axis))
      (d < static_cast<size_t>(axis) ? view.outer : view.inner) *= dims[d];
  return view;
}

// Calls f(outer, first column, columns) for groups of neighbouring columns.
template <class F>
void for_groups(const AxisView& view, const F& f) {
  const int64_t groups = (view.inner + kGroup - 1) / kGroup;
  const int64_t work = view.extent * std::min(view.inner, kGroup);
  parallel_ranges(view.outer * groups, 1 + 16384 / std::max<int64_t>(work, 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t unit = begin; unit < end; ++unit) {
                      const int64_t first = unit % groups * kGroup;
                      f(unit / groups, first, std::min(kGroup, view.inner - first));
                    }
                  });
}

// ---- the place of the largest, or smallest, element ----

// Whether a is larger than b; a NaN is larger than any number (of a minimum: smaller).
template <class T>
bool beats(T a, T b, bool smallest) {
  if constexpr (std::is_floating_point_v<T>)
    return (smallest ? a < b : a > b) || (std::isnan(a) && !std::isnan(b));
  else
    return smallest ? a < b : a > b;
}

template <class T>
void find_extremes(const T* x, int64_t* y, const AxisView& view, bool smallest, bool last) {
  for_groups(view, [&](int64_t outer, int64_t first, int64_t columns) {
    const T* line = x + outer * view.extent * view.inner + first;
    int64_t* place = y + outer * view.inner + first;
    std::array<T, kGroup> best;
    for (int64_t c = 0; c < columns; ++c) {
      best[static_cast<size_t>(c)] = line[c];
      place[c] = 0;
    }
    for (int64_t a = 1; a < view.extent; ++a)
      for (int64_t c = 0; c < columns; ++c) {
        T& so_far = best[static_cast<size_t>(c)];
        const T here = line[a * view.inner + c];
        if (!beats(here, so_far, smallest) && (!last || beats(so_far, here, smallest))) continue;
        so_far = here;
        place[c] = a;
      }
  });
}

Result<Built> build_search(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const AxisView view, view_of(op));
  if (view.extent < 1) return unsupported(op, "the axis has no elements");
  const bool smallest = op.kind == "ArgMin", last = int_attr(op, "last", 0) != 0;
  return build_for_number(op, op.inputs[0]->dtype, [&]<class T>(T) {
    Built built;
    built.run = [=](const KernelArgs& args) {
      find_extremes(static_cast<const T*>(args.inputs[0]), static_cast<int64_t*>(args.outputs[0]),
                    view, smallest, last);
    };
    return built;
  });
}

// ---- the largest few ----

// A heap of `count` places of one line, the worst on top; entries lie `step` apart.
template <class T>
struct WorstFirst {
  const T* x;
  int64_t* places;
  int64_t step;
  bool smallest;

  // Whether place a comes behind place b in the result.
  bool behind(int64_t a, int64_t b) const {
    const T u = x[a * step], v = x[b * step];
    if constexpr (std::is_floating_point_v<T>) {
      const bool u_is_nan = std::isnan(u), v_is_nan = std::isnan(v);
      if (u_is_nan || v_is_nan) {
        if (u_is_nan && v_is_nan) return a > b;
        return u_is_nan == smallest;
      }
    }
    if (u == v) return a > b;
    return smallest ? u > v : u < v;
  }
  int64_t& at(int64_t i) const { return places[i * step]; }

  void sink(int64_t i, int64_t count) const {
    const int64_t moved = at(i);
    for (int64_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
      if (child + 1 < count && behind(at(child + 1), at(child))) ++child;
      if (!behind(at(child), moved)) break;
      at(i) = at(child);
      i = child;
    }
    at(i) = moved;
  }

  // Leaves the first `count` places in order.
  void run(int64_t extent, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) at(i) = i;
    for (int64_t i = count / 2; i-- > 0;) sink(i, count);
    for (int64_t a = count; a < extent && count > 0; ++a) {
      if (!behind(at(0), a)) continue;
      at(0) = a;
      sink(0, count);
    }
    for (int64_t left = count; left-- > 1;) {
      std::swap(at(0), at(left));
      sink(0, left);
    }
  }
};

Result<Built> build_top_k(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 2));
  LT_ASSIGN(const AxisView view, view_of(op));
  const int64_t count = int_attr(op, "count", 0);
  if (count < 0 || count > view.extent) return unsupported(op, "count is out of range");
  const bool smallest = int_attr(op, "smallest", 0) != 0;
  return build_for_number(op, op.inputs[0]->dtype, [&]<class T>(T) {
    Built built;
    built.run = [=](const KernelArgs& args) {
      const T* x = static_cast<const T*>(args.inputs[0]);
      T* values = static_cast<T*>(args.outputs[0]);
      int64_t* places = static_cast<int64_t*>(args.outputs[1]);
      parallel_ranges(
          view.outer * view.inner, 1 + 4096 / std::max<int64_t>(view.extent, 1),
          [&](int64_t begin, int64_t end) {
            for (int64_t line = begin; line < end; ++line) {
              const int64_t outer = line / view.inner, inner = line % view.inner;
              const T* from = x + outer * view.extent * view.inner + inner;
              const int64_t to = outer * count * view.inner + inner;
              WorstFirst<T>{from, places + to, view.inner, smallest}.run(view.extent, count);
              for (int64_t k = 0; k < count; ++k)
                values[to + k * view.inner] = from[places[to + k * view.inner] * view.inner];
            }
          });
    };
    return built;
  });
}

// ---- running sums and products ----

// Floats are joined in double, which costs nothing beside reading them.
template <class T>
using Running = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

struct RunningForm {
  bool sums = true, exclusive = false, reverse = false;
};

template <class T>
void run_along(const T* x, T* y, const AxisView& view, const RunningForm& form) {
  for_groups(view, [&](int64_t outer, int64_t first, int64_t columns) {
    std::array<Running<T>, kGroup> so_far;
    so_far.fill(form.sums ? 0 : 1);
    for (int64_t step = 0; step < view.extent; ++step) {
      const int64_t a = form.reverse ? view.extent - 1 - step : step;
      const int64_t row = (outer * view.extent + a) * view.inner + first;
      for (int64_t c = 0; c < columns; ++c) {
        Running<T>& before = so_far[static_cast<size_t>(c)];
        const auto here = static_cast<Running<T>>(x[row + c]);
        const Running<T> after = form.sums ? before + here : before * here;
        y[row + c] = static_cast<T>(form.exclusive ? before : after);
        before = after;
      }
    }
  });
}

Result<Built> build_running(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const AxisView view, view_of(op));
  const RunningForm form = {.sums = op.kind == "CumSum",
                            .exclusive = int_attr(op, "exclusive", 0) != 0,
                            .reverse = int_attr(op, "reverse", 0) != 0};
  return build_for_number(op, op.inputs[0]->dtype, [&]<class T>(T) {
    Built built;
    built.run = [=](const KernelArgs& args) {
      run_along(static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.outputs[0]), view,
                form);
    };
    return built;
  });
}

constexpr Entry kAlongAxisEntries[] = {
    {"ArgMax", "T -> i64", kNumbers, build_search, wish_row_major},
    {"ArgMin", "T -> i64", kNumbers, build_search, wish_row_major},
    {"TopK", "T -> T i64", kNumbers, build_top_k, wish_row_major},
    {"CumSum", "T -> T", kNumbers, build_running, wish_row_major},
    {"CumProd", "T -> T", kNumbers, build_running, wish_row_major}};

}  // namespace

std::span<const Entry> along_axis_kernels() {
  return kAlongAxisEntries;
}

}  // namespace lowtide::exec_cpu
