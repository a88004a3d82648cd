// What changes state: optimizer updates and running statistics, by PyTorch's formulas. Outputs are
// the new contents of the inputs they update.
#include <cmath>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

struct SgdKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &param = *call.in[0], &grad = *call.in[1];
    const Tensor* momentum = call.input(2);
    const T rate = static_cast<T>(call.attrs.real("learning_rate"));
    const T keep = static_cast<T>(call.attrs.real("momentum"));
    const T decay = static_cast<T>(call.attrs.real("weight_decay"));
    for (int64_t e = 0; e < param.count(); ++e) {
      const T p = get<T>(param, e);
      T step = get<T>(grad, e) + (decay != 0 ? decay * p : 0);  // 0 times an infinite p is NaN
      if (momentum) {
        step += keep * get<T>(*momentum, e);
        set<T>(call.out[1], e, step);
      }
      set<T>(call.out[0], e, p - rate * step);
    }
  }
};

struct AdamWKernel {
  template <class T>
  static void run(Call& call) {
    const double rate = call.attrs.real("learning_rate");
    const double beta1 = call.attrs.real("beta1"), beta2 = call.attrs.real("beta2");
    const double steps = static_cast<double>(call.context.step);
    const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2);
    const T size = static_cast<T>(rate / (1 - std::pow(beta1, steps)));
    const T root = static_cast<T>(std::sqrt(1 - std::pow(beta2, steps)));
    const T shrink = static_cast<T>(1 - rate * call.attrs.real("weight_decay"));
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t e = 0; e < call.in[0]->count(); ++e) {
      const T g = get<T>(*call.in[1], e);
      const T m = b1 * get<T>(*call.in[2], e) + (1 - b1) * g;
      const T v = b2 * get<T>(*call.in[3], e) + (1 - b2) * g * g;
      set<T>(call.out[0], e,
             get<T>(*call.in[0], e) * shrink - size * m / (std::sqrt(v) / root + epsilon));
      set<T>(call.out[1], e, m);
      set<T>(call.out[2], e, v);
    }
  }
};

struct RunningUpdateKernel {
  template <class T>
  static void run(Call& call) {
    const T weight = static_cast<T>(call.attrs.real("momentum"));
    const T factor = static_cast<T>(call.attrs.real("correction", 1));
    for (int64_t e = 0; e < call.in[0]->count(); ++e)
      set<T>(call.out[0], e,
             (1 - weight) * get<T>(*call.in[0], e) + weight * factor * get<T>(*call.in[1], e));
  }
};

}  // namespace

void add_update(KernelTable& table) {
  table["SgdUpdate"] = kernel<SgdKernel>();
  table["AdamWUpdate"] = kernel<AdamWKernel>();
  table["RunningUpdate"] = kernel<RunningUpdateKernel>();
}

}  // namespace lowtide::ref
