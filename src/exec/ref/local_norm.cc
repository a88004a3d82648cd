// Normalisation over neighbouring channels and by a norm, with their gradients, by definition.
#include <algorithm>
#include <cmath>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// y = x / s^beta, s = bias + alpha / size * sum of x^2 over the window of channels.
struct Lrn {
  int64_t below, above;
  double alpha, beta, bias;

  explicit Lrn(const Attributes& attrs) {
    const int64_t size = attrs.integer("size");
    below = (size - 1) / 2;
    above = size - 1 - below;
    alpha = attrs.real("alpha") / static_cast<double>(size);
    beta = attrs.real("beta");
    bias = attrs.real("bias");
  }
  template <class T>
  T scale(const Tensor& x, const Around& split, int64_t o, int64_t c, int64_t i) const {
    T sum = 0;
    for (int64_t k = std::max<int64_t>(0, c - below); k <= std::min(split.axis - 1, c + above); ++k)
      sum += get<T>(x, split.at(o, k, i)) * get<T>(x, split.at(o, k, i));
    return static_cast<T>(bias) + static_cast<T>(alpha) * sum;
  }
};

struct LrnKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Lrn lrn(call.attrs);
    const Around split = around(x.dims, 1);
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t c = 0; c < split.axis; ++c)
        for (int64_t i = 0; i < split.inner; ++i) {
          const T s = lrn.scale<T>(x, split, o, c, i);
          set<T>(call.out[0], split.at(o, c, i),
                 get<T>(x, split.at(o, c, i)) / std::pow(s, static_cast<T>(lrn.beta)));
        }
  }
};

// dy_j x_j s_j^-beta depends on x_j itself and on every x_k of its window, through s_j.
struct LrnGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1];
    Tensor& dx = call.out[0];
    const Lrn lrn(call.attrs);
    const T alpha = static_cast<T>(lrn.alpha), beta = static_cast<T>(lrn.beta);
    const Around split = around(x.dims, 1);
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t c = 0; c < split.axis; ++c)
        for (int64_t i = 0; i < split.inner; ++i) {
          const int64_t own = split.at(o, c, i);
          const T s = lrn.scale<T>(x, split, o, c, i);
          add<T>(dx, own, get<T>(dy, own) * std::pow(s, -beta));
          const T slope =
              -2 * alpha * beta * get<T>(dy, own) * get<T>(x, own) * std::pow(s, -beta - 1);
          for (int64_t k = std::max<int64_t>(0, c - lrn.below);
               k <= std::min(split.axis - 1, c + lrn.above); ++k)
            add<T>(dx, split.at(o, k, i), slope * get<T>(x, split.at(o, k, i)));
        }
  }
};

// Calls use(the norm of a line, its elements) for all lines along the axis.
template <class T, class Use>
void for_lines(const Call& call, const Tensor& x, const Use& use) {
  const Around split = around(x.dims, call.attrs.integer("axis"));
  const bool squares = call.attrs.integer("p") == 2;
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      Sizes elements;
      T sum = 0;
      for (int64_t a = 0; a < split.axis; ++a) {
        elements.push_back(split.at(o, a, i));
        const T value = get<T>(x, elements.back());
        sum += squares ? value * value : std::abs(value);
      }
      use(squares ? std::sqrt(sum) : sum, elements);
    }
}

// A line of zeros stays one.
struct LpNormalizeKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    for_lines<T>(call, x, [&](T norm, const Sizes& elements) {
      for (int64_t e : elements) set<T>(call.out[0], e, norm == 0 ? 0 : get<T>(x, e) / norm);
    });
  }
};

struct LpNormalizeGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1];
    const bool squares = call.attrs.integer("p") == 2;
    for_lines<T>(call, x, [&](T norm, const Sizes& elements) {
      if (norm == 0) return;
      T dot = 0;
      for (int64_t e : elements) dot += get<T>(dy, e) * (get<T>(x, e) / norm);
      for (int64_t e : elements) {
        const T value = get<T>(x, e), sign = static_cast<T>((value > 0) - (value < 0));
        const T slope = squares ? value / norm : sign;
        set<T>(call.out[0], e, (get<T>(dy, e) - slope * dot) / norm);
      }
    });
  }
};

}  // namespace

void add_local_norm(KernelTable& table) {
  table["Lrn"] = kernel<LrnKernel>();
  table["LrnGrad"] = kernel<LrnGradKernel>();
  table["LpNormalize"] = kernel<LpNormalizeKernel>();
  table["LpNormalizeGrad"] = kernel<LpNormalizeGradKernel>();
}

}  // namespace lowtide::ref
