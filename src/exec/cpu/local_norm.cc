// Normalisation over neighbouring channels (Lrn) and by a norm along one axis (LpNormalize), with
// their gradients, in f32 and f64. The tensor is seen as [outer, extent, inner] in the order of
// memory; a unit of work is one outer slice and a block of neighbouring columns, so that the loops
// inside run over contiguous elements: columns, or the axis itself where it is innermost. Sums are
// cut by the shape alone.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kColumns = 64;  // columns of a unit

// Elements of a unit: e of the axis and column p lie at first + e * step + p.
struct Unit {
  int64_t first, step, columns;
};

template <class Run>
void for_units(const AxisView& v, const Run& run) {
  const int64_t blocks = (v.inner + kColumns - 1) / kColumns;
  const int64_t grain = 1 + 4096 / std::max<int64_t>(1, v.extent * std::min(v.inner, kColumns));
  parallel_ranges(v.outer * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t column = unit % blocks * kColumns;
      run(Unit{unit / blocks * v.extent * v.inner + column, v.inner,
               std::min(kColumns, v.inner - column)});
    }
  });
}

Result<AxisView> view_of(const OpDesc& op, int64_t axis) {
  const TensorDesc& y = op.outputs[0];
  for (const auto& input : op.inputs)
    if (!same_order(*input, y)) return unsupported(op, "operands in different layouts");
  if (axis < 0 || axis >= static_cast<int64_t>(y.dims.size()))
    return unsupported(op, "the axis is out of range");
  return axis_view(y, static_cast<size_t>(axis));
}

// ---- Lrn: y = x / s^beta, s = bias + alpha / size * sum of squares of the channels around ----

struct Lrn {
  AxisView view;
  int64_t below = 0, above = 0;          // channels of the window before and behind its own
  double alpha = 0, beta = 0, bias = 0;  // alpha is divided by the size

  int64_t scratch() const { return view.extent * std::min(view.inner, kColumns); }
};

Result<Lrn> lrn_of(const OpDesc& op) {
  Lrn lrn;
  LT_ASSIGN(lrn.view, view_of(op, 1));
  const int64_t size = int_attr(op, "size", 1);
  lrn.below = (size - 1) / 2;
  lrn.above = size - 1 - lrn.below;
  lrn.alpha = real_attr(op, "alpha", 1e-4) / static_cast<double>(size);
  lrn.beta = real_attr(op, "beta", 0.75);
  lrn.bias = real_attr(op, "bias", 1);
  return lrn;
}

// Calls use(a, b, n) for runs of n neighbouring elements, a at channel c and b at channel c + k for
// every k of the window: whole lines of channels where those are neighbours, else columns.
template <class Use>
void for_window(const Lrn& lrn, const Unit& u, int64_t below, int64_t above, const Use& use) {
  const int64_t channels = lrn.view.extent;
  for (int64_t k = -below; k <= above; ++k) {
    const int64_t first = std::max<int64_t>(0, -k), last = channels - std::max<int64_t>(0, k);
    if (u.step == 1) {
      if (first < last) use(first, first + k, last - first);
      continue;
    }
    for (int64_t c = first; c < last; ++c) use(c * u.step, (c + k) * u.step, u.columns);
  }
}

// Calls use(offset in the tensor, offset in scratch, n) for the runs of a unit.
template <class Use>
void for_runs(const Lrn& lrn, const Unit& u, const Use& use) {
  if (u.step == 1) return use(0, 0, lrn.view.extent);
  for (int64_t c = 0; c < lrn.view.extent; ++c) use(c * u.step, c * u.columns, u.columns);
}

// s^-beta.
template <class T>
void powers(const Lrn& lrn, const T* s, int64_t n, T* result) {
  if (lrn.beta == 0.75) {
    for (int64_t i = 0; i < n; ++i) {
      const T root = std::sqrt(s[i]);
      result[i] = 1 / (root * std::sqrt(root));
    }
    return;
  }
  const T exponent = static_cast<T>(-lrn.beta);
  for (int64_t i = 0; i < n; ++i) result[i] = std::pow(s[i], exponent);
}

// The sums of squares of a unit, in the places of y.
template <class T>
void window_sums(const Lrn& lrn, const Unit& u, const T* x, T* s) {
  const T bias = static_cast<T>(lrn.bias), alpha = static_cast<T>(lrn.alpha);
  for_runs(lrn, u, [&](int64_t at, int64_t, int64_t n) { std::fill(s + at, s + at + n, bias); });
  for_window(lrn, u, lrn.below, lrn.above, [&](int64_t c, int64_t other, int64_t n) {
    for (int64_t i = 0; i < n; ++i) s[c + i] += alpha * x[other + i] * x[other + i];
  });
}

template <class T>
void run_lrn(const Lrn& lrn, const KernelArgs& args) {
  for_units(lrn.view, [&](const Unit& u) {
    const T* x = static_cast<const T*>(args.inputs[0]) + u.first;
    T* y = static_cast<T*>(args.outputs[0]) + u.first;
    window_sums(lrn, u, x, y);
    for_runs(lrn, u, [&](int64_t at, int64_t, int64_t n) {
      powers(lrn, y + at, n, y + at);
      for (int64_t i = 0; i < n; ++i) y[at + i] *= x[at + i];
    });
  });
}

// dx = dy s^-beta - 2 alpha beta x (sum of dy x s^(-beta - 1) over the windows that hold this
// channel). Scratch: s^-beta and what is summed.
template <class T>
void run_lrn_grad(const Lrn& lrn, const KernelArgs& args) {
  for_units(lrn.view, [&](const Unit& u) {
    const T *dy = static_cast<const T*>(args.inputs[0]) + u.first,
            *x = static_cast<const T*>(args.inputs[1]) + u.first;
    T* dx = static_cast<T*>(args.outputs[0]) + u.first;
    T* power = static_cast<T*>(args.workspace) + omp_get_thread_num() * 2 * lrn.scratch();
    T* summed = power + lrn.scratch();
    window_sums(lrn, u, x, dx);
    for_runs(lrn, u, [&](int64_t at, int64_t own, int64_t n) {
      powers(lrn, dx + at, n, power + own);
      for (int64_t i = 0; i < n; ++i) {
        summed[own + i] = dy[at + i] * x[at + i] * power[own + i] / dx[at + i];
        dx[at + i] = 0;
      }
    });
    for_window(lrn, u, lrn.above, lrn.below, [&](int64_t c, int64_t other, int64_t n) {
      const T* from = summed + (u.step == 1 ? other : other / u.step * u.columns);
      for (int64_t i = 0; i < n; ++i) dx[c + i] += from[i];
    });
    const T factor = static_cast<T>(-2 * lrn.alpha * lrn.beta);
    for_runs(lrn, u, [&](int64_t at, int64_t own, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        dx[at + i] = dy[at + i] * power[own + i] + factor * x[at + i] * dx[at + i];
    });
  });
}

Result<Built> build_lrn(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const Lrn lrn, lrn_of(op));
  const bool wide = op.outputs[0].dtype == DType::kF64;
  Built built;
  built.run = [=](const KernelArgs& args) {
    wide ? run_lrn<double>(lrn, args) : run_lrn<float>(lrn, args);
  };
  return built;
}

Result<Built> build_lrn_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const Lrn lrn, lrn_of(op));
  const bool wide = op.outputs[0].dtype == DType::kF64;
  Built built;
  built.workspace_bytes =
      2 * lrn.scratch() * size_bytes(op.outputs[0].dtype) * omp_get_max_threads();
  built.run = [=](const KernelArgs& args) {
    wide ? run_lrn_grad<double>(lrn, args) : run_lrn_grad<float>(lrn, args);
  };
  return built;
}

// ---- LpNormalize: y = x / norm, 0 where the norm is 0 ----

// The norms of the columns of a unit, 1 for p = 1 and 2 for p = 2.
template <class T>
void norms(const AxisView& v, const Unit& u, int64_t p, const T* x, double* norm) {
  std::fill(norm, norm + u.columns, 0.0);
  for (int64_t e = 0; e < v.extent; ++e)
    for (int64_t i = 0; i < u.columns; ++i) {
      const auto value = static_cast<double>(x[e * u.step + i]);
      norm[i] += p == 1 ? std::abs(value) : value * value;
    }
  // A sum that T cannot hold is none: lines of the smallest numbers have norm 0.
  for (int64_t i = 0; i < u.columns; ++i) {
    const T sum = static_cast<T>(norm[i]);
    norm[i] = static_cast<double>(p == 1 ? sum : std::sqrt(sum));
  }
}

template <class T>
void run_lp_normalize(const AxisView& v, int64_t p, const KernelArgs& args) {
  for_units(v, [&](const Unit& u) {
    const T* x = static_cast<const T*>(args.inputs[0]) + u.first;
    T* y = static_cast<T*>(args.outputs[0]) + u.first;
    double norm[kColumns];
    norms(v, u, p, x, norm);
    for (int64_t e = 0; e < v.extent; ++e)
      for (int64_t i = 0; i < u.columns; ++i) {
        const int64_t at = e * u.step + i;
        y[at] = norm[i] == 0 ? T{0} : static_cast<T>(static_cast<double>(x[at]) / norm[i]);
      }
  });
}

// dx = (dy - slope * (dy . y)) / norm, where slope is that of the norm: y = x / norm, or sign(x).
template <class T>
void run_lp_normalize_grad(const AxisView& v, int64_t p, const KernelArgs& args) {
  for_units(v, [&](const Unit& u) {
    const T *dy = static_cast<const T*>(args.inputs[0]) + u.first,
            *x = static_cast<const T*>(args.inputs[1]) + u.first;
    T* dx = static_cast<T*>(args.outputs[0]) + u.first;
    double norm[kColumns], dot[kColumns] = {};
    norms(v, u, p, x, norm);
    for (int64_t e = 0; e < v.extent; ++e)
      for (int64_t i = 0; i < u.columns; ++i)
        dot[i] += static_cast<double>(dy[e * u.step + i]) *
                  (static_cast<double>(x[e * u.step + i]) / norm[i]);
    for (int64_t e = 0; e < v.extent; ++e)
      for (int64_t i = 0; i < u.columns; ++i) {
        const int64_t at = e * u.step + i;
        const auto value = static_cast<double>(x[at]);
        const double slope = p == 2 ? value / norm[i] : (value > 0 ? 1.0 : value < 0 ? -1.0 : 0.0);
        const double slid = static_cast<double>(dy[at]) - slope * dot[i];
        dx[at] = norm[i] == 0 ? T{0} : static_cast<T>(slid / norm[i]);
      }
  });
}

Result<Built> build_lp_normalize(const OpDesc& op) {
  const bool gradient = op.kind == "LpNormalizeGrad";
  LT_RETURN_IF_ERROR(check_counts(op, gradient ? 2 : 1, gradient ? 2 : 1, 1));
  LT_ASSIGN(const AxisView view, view_of(op, int_attr(op, "axis", 0)));
  const int64_t p = int_attr(op, "p", 2);
  if (p != 1 && p != 2) return unsupported(op, "p other than 1 and 2");
  const bool wide = op.outputs[0].dtype == DType::kF64;
  Built built;
  built.run = [=](const KernelArgs& args) {
    if (gradient)
      (wide ? run_lp_normalize_grad<double> : run_lp_normalize_grad<float>)(view, p, args);
    else
      (wide ? run_lp_normalize<double> : run_lp_normalize<float>)(view, p, args);
  };
  return built;
}

constexpr Entry kLocalNormEntries[] = {
    {"Lrn", "T -> T", "f32 f64", build_lrn},
    {"LrnGrad", "T T -> T", "f32 f64", build_lrn_grad},
    {"LpNormalize", "T -> T", "f32 f64", build_lp_normalize},
    {"LpNormalizeGrad", "T T -> T", "f32 f64", build_lp_normalize},
};

}  // namespace

std::span<const Entry> local_norm_kernels() {
  return kLocalNormEntries;
}

}  // namespace lowtide::exec_cpu
