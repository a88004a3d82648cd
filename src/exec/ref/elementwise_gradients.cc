// Gradients of elementwise ops: dy times the slope at what the op saves, its operand x or its
// result y.
#include "exec/ref/kernels.h"
#include "exec/ref/scalar_functions.h"

namespace lowtide::ref {
namespace {

template <class T>
using SlopeTable = std::map<std::string_view, T (*)(T, const Scalars<T>&)>;

template <class T>
const SlopeTable<T>& slopes() {
  using S = const Scalars<T>&;
  static const SlopeTable<T> table = {
      {"ReluGrad", [](T y, S) { return y <= 0 ? T(0) : T(1); }},
      {"SigmoidGrad", [](T y, S) { return y * (1 - y); }},
      {"TanhGrad", [](T y, S) { return 1 - y * y; }},
      {"GeluGrad", [](T x, S s) { return gelu_slope(x, s.tanh_form); }},
      {"SiluGrad",
       [](T x, S) {
         const T gate = sigmoid(x);
         return gate * (1 + x * (1 - gate));
       }},
      {"LeakyReluGrad", [](T x, S s) { return x > 0 ? T(1) : s.alpha; }},
      {"EluGrad", [](T x, S s) { return x <= 0 ? s.alpha * std::exp(x) : T(1); }},
      {"HardSigmoidGrad",
       [](T x, S s) {
         const T y = s.alpha * x + s.beta;
         const bool slopes = y > 0 && y < 1;  // NOLINT(misc-redundant-expression): T is real
         return slopes ? s.alpha : T(0);
       }},
      {"HardSwishGrad", [](T x, S) { return hard_swish_slope(x); }},
      {"ClipGrad",
       [](T x, S s) {
         if (s.open) return x <= s.low || x >= s.high ? T(0) : T(1);
         return x >= s.low && x <= s.high ? T(1) : T(0);
       }},
      {"SoftplusGrad", [](T x, S) { return sigmoid(x); }},
      {"MishGrad", [](T x, S) { return mish_slope(x); }},
      {"ErfGrad", [](T x, S) { return 2 / std::sqrt(std::numbers::pi_v<T>) * std::exp(-x * x); }},
  };
  return table;
}

struct SlopeKernel {
  template <class T>
  static void run(Call& call) {
    const Scalars<T> scalars(call.attrs);
    const auto slope = slopes<T>().at(call.kind);
    const Tensor &dy = *call.in[0], &saved = *call.in[1];
    for (int64_t e = 0; e < dy.count(); ++e)
      set<T>(call.out[0], e, get<T>(dy, e) * slope(get<T>(saved, e), scalars));
  }
};

}  // namespace

void add_elementwise_gradients(KernelTable& table) {
  for (const auto& [kind, slope] : slopes<double>()) table[kind] = kernel<SlopeKernel>();
}

}  // namespace lowtide::ref
