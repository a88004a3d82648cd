// Elementwise ops. Binary ones broadcast as numpy does.
#include <functional>

#include "base/check.h"
#include "base/element.h"
#include "exec/ref/kernels.h"
#include "exec/ref/scalar_functions.h"

namespace lowtide::ref {
namespace {

// ---- one operand

template <class T>
using UnaryTable = std::map<std::string_view, T (*)(T, const Scalars<T>&)>;

template <class T>
const UnaryTable<T>& unary_functions() {
  using S = const Scalars<T>&;
  static const UnaryTable<T> table = {
      {"Relu", [](T x, S) { return std::max<T>(x, 0); }},
      {"Sigmoid", [](T x, S) { return sigmoid(x); }},
      {"Tanh", [](T x, S) { return std::tanh(x); }},
      {"Erf", [](T x, S) { return std::erf(x); }},
      {"Exp", [](T x, S) { return std::exp(x); }},
      {"Log", [](T x, S) { return std::log(x); }},
      {"Sqrt", [](T x, S) { return std::sqrt(x); }},
      {"Reciprocal", [](T x, S) { return 1 / x; }},
      {"Neg", [](T x, S) { return -x; }},
      {"Abs", [](T x, S) { return std::abs(x); }},
      {"Sin", [](T x, S) { return std::sin(x); }},
      {"Cos", [](T x, S) { return std::cos(x); }},
      {"Floor", [](T x, S) { return std::floor(x); }},
      {"Ceil", [](T x, S) { return std::ceil(x); }},
      {"Round", [](T x, S) { return std::nearbyint(x); }},  // halves to even
      {"Sign", [](T x, S) { return sign(x); }},
      {"Softplus", [](T x, S) { return softplus(x); }},
      {"HardSwish", [](T x, S) { return x * std::clamp<T>(x + 3, 0, 6) / 6; }},
      {"Mish", [](T x, S) { return x * std::tanh(softplus(x)); }},
      {"LeakyRelu", [](T x, S s) { return x >= 0 ? x : s.alpha * x; }},
      {"Elu", [](T x, S s) { return x >= 0 ? x : s.alpha * std::expm1(x); }},
      {"HardSigmoid", [](T x, S s) { return hard_sigmoid(x, s.alpha, s.beta); }},
      {"Gelu", [](T x, S s) { return gelu(x, s.tanh_form); }},
      {"Silu", [](T x, S) { return x * sigmoid(x); }},
      {"Clip", [](T x, S s) { return std::min(std::max(x, s.low), s.high); }},
      {"PowScalar", [](T x, S s) { return std::pow(x, s.exponent); }},
      {"AffineScalar", [](T x, S s) { return s.scale * x + s.shift; }},
  };
  return table;
}

// The few unary ops that integers know; the others want floats. Clip and affine bounds are rounded
// towards zero.
int64_t integer_unary(std::string_view kind, int64_t x, const Attributes& attrs) {
  if (kind == "Relu") return std::max<int64_t>(x, 0);
  if (kind == "Neg") return -x;
  if (kind == "Abs") return std::abs(x);
  if (kind == "Sign") return (x > 0) - (x < 0);
  if (kind == "Clip") {
    if (attrs.has("min")) x = std::max(x, static_cast<int64_t>(attrs.real("min")));
    if (attrs.has("max")) x = std::min(x, static_cast<int64_t>(attrs.real("max")));
    return x;
  }
  if (kind == "AffineScalar")
    return static_cast<int64_t>(attrs.real("scale", 1)) * x +
           static_cast<int64_t>(attrs.real("shift", 0));
  LT_CHECK(kind == "Floor" || kind == "Ceil" || kind == "Round", kind);
  return x;
}

struct UnaryKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    if (!x.real()) {
      for (int64_t e = 0; e < x.count(); ++e)
        set_int(call.out[0], e, integer_unary(call.kind, int_at(x, e), call.attrs));
      return;
    }
    const Scalars<T> scalars(call.attrs);
    const auto function = unary_functions<T>().at(call.kind);
    for (int64_t e = 0; e < x.count(); ++e) set<T>(call.out[0], e, function(get<T>(x, e), scalars));
  }
};

struct NotKernel {
  template <class T>
  static void run(Call& call) {
    for (int64_t e = 0; e < call.in[0]->count(); ++e)
      set_int(call.out[0], e, int_at(*call.in[0], e) == 0);
  }
};

struct IsNanKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    for (int64_t e = 0; e < x.count(); ++e)
      set_int(call.out[0], e, x.real() && std::isnan(get<T>(x, e)));
  }
};

struct CopyKernel {
  template <class T>
  static void run(Call& call) {
    for (int64_t e = 0; e < call.in[0]->count(); ++e) copy_element(call.out[0], e, *call.in[0], e);
  }
};

struct CastKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    for (int64_t e = 0; e < x.count(); ++e) {
      if (y.real()) {
        set<T>(y, e, x.real() ? get<T>(x, e) : static_cast<T>(int_at(x, e)));
      } else if (!x.real()) {
        set_int(y, e, wrapped(y.dtype, int_at(x, e)));
      } else {
        const double value = get<double>(x, e);
        set_int(y, e,
                y.dtype == DType::kBool ? value != 0 : wrapped(y.dtype, truncated(y.dtype, value)));
      }
    }
  }
};

// ---- two operands

// Calls use(element of out, element of each input), all inputs broadcast to the result.
void for_broadcast(const Call& call, const std::function<void(int64_t, const int64_t*)>& use) {
  std::vector<Sizes> strides;
  for (const Tensor* in : call.in) strides.push_back(broadcast_strides(in->dims, call.out[0].dims));
  std::vector<int64_t> from(call.in.size());
  for (Odometer at(call.out[0].dims); at.live(); at.next()) {
    for (size_t i = 0; i < from.size(); ++i) from[i] = at.dot(strides[i]);
    use(at.flat(), from.data());
  }
}

template <class T>
T float_binary(std::string_view kind, T a, T b) {
  if (kind == "Add") return a + b;
  if (kind == "Sub") return a - b;
  if (kind == "Mul") return a * b;
  if (kind == "Div") return a / b;
  if (kind == "Max") return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  if (kind == "Min") return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
  if (kind == "Pow") return std::pow(a, b);
  LT_CHECK(kind == "Mod", kind);
  return a - b * std::floor(a / b);
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) result *= static_cast<uint64_t>(base);
  return static_cast<int64_t>(result);
}

// C's division; what would divide by zero gives 0. Mod has the sign of b.
int64_t integer_binary(std::string_view kind, int64_t a, int64_t b) {
  if (kind == "Add") return a + b;
  if (kind == "Sub") return a - b;
  if (kind == "Mul") return a * b;
  if (kind == "Max") return std::max(a, b);
  if (kind == "Min") return std::min(a, b);
  if (kind == "Pow") return integer_power(a, b);
  if (b == 0) return 0;
  if (kind == "Div") return b == -1 ? -a : a / b;
  LT_CHECK(kind == "Mod", kind);
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

struct BinaryKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    for_broadcast(call, [&](int64_t e, const int64_t* from) {
      const Tensor &a = *call.in[0], &b = *call.in[1];
      if (y.real()) {
        set<T>(y, e, float_binary(call.kind, get<T>(a, from[0]), get<T>(b, from[1])));
      } else {
        set_int(
            y, e,
            wrapped(y.dtype, integer_binary(call.kind, int_at(a, from[0]), int_at(b, from[1]))));
      }
    });
  }
};

template <class N>
bool compare(std::string_view kind, N a, N b) {
  if (kind == "Equal") return a == b;
  if (kind == "Less") return a < b;
  if (kind == "LessOrEqual") return a <= b;
  if (kind == "Greater") return a > b;
  LT_CHECK(kind == "GreaterOrEqual", kind);
  return a >= b;
}

struct CompareKernel {
  template <class T>
  static void run(Call& call) {
    for_broadcast(call, [&](int64_t e, const int64_t* from) {
      const Tensor &a = *call.in[0], &b = *call.in[1];
      const bool holds = a.real() ? compare(call.kind, get<T>(a, from[0]), get<T>(b, from[1]))
                                  : compare(call.kind, int_at(a, from[0]), int_at(b, from[1]));
      set_int(call.out[0], e, holds);
    });
  }
};

struct LogicKernel {
  template <class T>
  static void run(Call& call) {
    for_broadcast(call, [&](int64_t e, const int64_t* from) {
      const bool a = int_at(*call.in[0], from[0]) != 0, b = int_at(*call.in[1], from[1]) != 0;
      set_int(call.out[0], e, call.kind == "And" ? a && b : call.kind == "Or" ? a || b : a != b);
    });
  }
};

struct WhereKernel {
  template <class T>
  static void run(Call& call) {
    for_broadcast(call, [&](int64_t e, const int64_t* from) {
      const size_t chosen = int_at(*call.in[0], from[0]) != 0 ? 1 : 2;
      copy_element(call.out[0], e, *call.in[chosen], from[chosen]);
    });
  }
};

}  // namespace

void add_elementwise(KernelTable& table) {
  for (const auto& [kind, function] : unary_functions<double>())
    table[kind] = kernel<UnaryKernel>();
  for (const char* kind : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod"})
    table[kind] = kernel<BinaryKernel>();
  for (const char* kind : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    table[kind] = kernel<CompareKernel>();
  for (const char* kind : {"And", "Or", "Xor"}) table[kind] = kernel<LogicKernel>();
  table["Not"] = kernel<NotKernel>();
  table["IsNaN"] = kernel<IsNanKernel>();
  table["Cast"] = kernel<CastKernel>();
  table["Copy"] = kernel<CopyKernel>();
  table["Where"] = kernel<WhereKernel>();
}

}  // namespace lowtide::ref
