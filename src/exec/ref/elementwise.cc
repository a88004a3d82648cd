// Elementwise ops. Binary ones broadcast as numpy does.
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/check.h"
#include "base/element.h"
#include "exec/ref/kernels.h"
#include "exec/ref/scalar_functions.h"

namespace lowtide::ref {
namespace {

// ---- one operand

// use(N()) with the 64-bit type in which integers of this type are computed.
template <class Use>
auto on_integers(DType dtype, Use use) {
  return dtype == DType::kU64 ? use(uint64_t{}) : use(int64_t{});
}

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
      {"Tan", [](T x, S) { return std::tan(x); }},
      {"Sinh", [](T x, S) { return std::sinh(x); }},
      {"Cosh", [](T x, S) { return std::cosh(x); }},
      {"Asin", [](T x, S) { return std::asin(x); }},
      {"Acos", [](T x, S) { return std::acos(x); }},
      {"Atan", [](T x, S) { return std::atan(x); }},
      {"Asinh", [](T x, S) { return std::asinh(x); }},
      {"Acosh", [](T x, S) { return std::acosh(x); }},
      {"Atanh", [](T x, S) { return std::atanh(x); }},
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
      // A shift of 0 keeps the sign of zero.
      {"AffineScalar", [](T x, S s) { return s.shift == 0 ? s.scale * x : s.scale * x + s.shift; }},
  };
  return table;
}

// Arithmetic of integers is modulo 2^64 here, and the result is wrapped to its type when it is
// stored. What depends on the sign (comparisons, division) takes u64 as such: N is int64_t or
// uint64_t.
template <class N>
N times(N a, N b) {
  return static_cast<N>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class N>
N plus(N a, N b) {
  return static_cast<N>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class N>
N negative(N a) {
  return static_cast<N>(0 - static_cast<uint64_t>(a));
}
template <class N>
N integer_power(N base, N exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == N(-1) ? (exponent % 2 == 0 ? 1 : N(-1)) : 0;
  N result = 1;
  for (N i = 0; i < exponent; ++i) result = times(result, base);
  return result;
}

// The unary ops that integers know.
template <class N>
N integer_unary(std::string_view kind, N x, const Attributes& attrs, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto constant = [&](std::string_view name, double absent) {
    return static_cast<N>(attrs.integer_of(dtype, name, absent));
  };
  if (kind == "Relu") return std::max<N>(x, 0);
  if (kind == "Neg") return negative(x);
  if (kind == "Abs") return x < 0 ? negative(x) : x;
  if (kind == "Sign") return static_cast<N>((x > 0) - (x < 0));
  if (kind == "Clip")
    return std::min(std::max(x, constant("min", -kInfinity)), constant("max", kInfinity));
  if (kind == "PowScalar") return integer_power(x, constant("exponent", 1));
  LT_CHECK(kind == "AffineScalar", kind);
  return plus(times(constant("scale", 1), x), constant("shift", 0));
}

struct UnaryKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    if (!x.real()) {
      for (int64_t e = 0; e < x.count(); ++e)
        set_int(call.out[0], e, on_integers(x.dtype, [&]<class N>(N) {
                  return static_cast<int64_t>(
                      integer_unary(call.kind, static_cast<N>(int_at(x, e)), call.attrs, x.dtype));
                }));
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

struct BitCastKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    for (int64_t e = 0; e < x.count(); ++e) {
      uint64_t bits = 0;
      if (x.real())
        write_real(x.dtype, get<double>(x, e), &bits);
      else
        write_integer(x.dtype, int_at(x, e), &bits);
      if (y.real())
        set<double>(y, e, read_real(y.dtype, &bits));
      else
        set_int(y, e, read_integer(y.dtype, &bits));
    }
  }
};

struct CastKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    for (int64_t e = 0; e < x.count(); ++e) {
      if (y.real()) {
        const auto number = [&]<class N>(N) {
          return static_cast<T>(static_cast<N>(int_at(x, e)));
        };
        set<T>(y, e, x.real() ? get<T>(x, e) : on_integers(x.dtype, number));
      } else if (!x.real()) {
        set_int(y, e, int_at(x, e));
      } else {
        const double value = get<double>(x, e);
        set_int(y, e, y.dtype == DType::kBool ? value != 0 : truncated(y.dtype, value));
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

// The remainder of a division; `like_a`: with the sign of a, otherwise with that of b.
template <class T>
T float_mod(T a, T b, bool like_a) {
  const T rest = std::fmod(a, b);
  const bool other_sign = rest != 0 && (rest < 0) != (b < 0);
  return !like_a && other_sign ? rest + b : rest;
}

// Infinities and NaN as they are.
template <class T>
T log_add_exp(T a, T b) {
  if (a == b) return a + std::log(T(2));
  const T most = std::isnan(a) ? a : std::max(b, a);
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

template <class T>
T float_binary(const Call& call, T a, T b) {
  const std::string_view kind = call.kind;
  if (kind == "Add") return a + b;
  if (kind == "Sub") return a - b;
  if (kind == "Mul") return a * b;
  if (kind == "Div") return a / b;
  if (kind == "Max") return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  if (kind == "Min") return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
  if (kind == "Pow") return std::pow(a, b);
  if (kind == "LogAddExp") return log_add_exp(a, b);
  LT_CHECK(kind == "Mod", kind);
  return float_mod(a, b, call.attrs.integer("fmod") != 0);
}

// Bits by bits. A shift moves zeros in; one by a negative number of places, or by as many as the
// type has bits, leaves none.
template <class N>
std::optional<N> bits_of_two(std::string_view kind, DType dtype, N a, N b) {
  if (kind == "BitwiseAnd") return a & b;
  if (kind == "BitwiseOr") return a | b;
  if (kind == "BitwiseXor") return a ^ b;
  if (kind != "ShiftLeft" && kind != "ShiftRight") return std::nullopt;
  const int64_t width = 8 * size_bytes(dtype);
  if (b < 0 || b >= static_cast<N>(width)) return N(0);
  const uint64_t mask = ~uint64_t{0} >> (64 - width), bits = static_cast<uint64_t>(a) & mask;
  return static_cast<N>(kind == "ShiftLeft" ? bits << b : bits >> b);
}

// C's division; what would divide by zero gives 0.
template <class N>
N integer_binary(const Call& call, DType dtype, N a, N b) {
  const std::string_view kind = call.kind;
  if (const auto bits = bits_of_two(kind, dtype, a, b)) return *bits;
  if (kind == "Add") return plus(a, b);
  if (kind == "Sub") return plus(a, negative(b));
  if (kind == "Mul") return times(a, b);
  if (kind == "Max") return std::max(a, b);
  if (kind == "Min") return std::min(a, b);
  if (kind == "Pow") return integer_power(a, b);
  if (b == 0) return 0;
  const bool negates = std::is_signed_v<N> && b == N(-1);  // the lowest number has no negative
  if (kind == "Div") return negates ? negative(a) : a / b;
  LT_CHECK(kind == "Mod", kind);
  const N rest = negates ? 0 : a % b;
  if (call.attrs.integer("fmod") != 0) return rest;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

struct BinaryKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    for_broadcast(call, [&](int64_t e, const int64_t* from) {
      const Tensor &a = *call.in[0], &b = *call.in[1];
      if (y.real()) {
        set<T>(y, e, float_binary(call, get<T>(a, from[0]), get<T>(b, from[1])));
        return;
      }
      set_int(y, e, on_integers(y.dtype, [&]<class N>(N) {
                return static_cast<int64_t>(integer_binary(call, y.dtype,
                                                           static_cast<N>(int_at(a, from[0])),
                                                           static_cast<N>(int_at(b, from[1]))));
              }));
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
      const auto integers = [&]<class N>(N) {
        return compare(call.kind, static_cast<N>(int_at(a, from[0])),
                       static_cast<N>(int_at(b, from[1])));
      };
      const bool holds = a.real() ? compare(call.kind, get<T>(a, from[0]), get<T>(b, from[1]))
                                  : on_integers(a.dtype, integers);
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
  for (const char* kind : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "BitwiseAnd",
                           "BitwiseOr", "BitwiseXor", "ShiftLeft", "ShiftRight"})
    table[kind] = kernel<BinaryKernel>();
  for (const char* kind : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    table[kind] = kernel<CompareKernel>();
  for (const char* kind : {"And", "Or", "Xor"}) table[kind] = kernel<LogicKernel>();
  table["LogAddExp"] = kernel<BinaryKernel>();
  table["Not"] = kernel<NotKernel>();
  table["IsNaN"] = kernel<IsNanKernel>();
  table["BitCast"] = kernel<BitCastKernel>();
  table["Cast"] = kernel<CastKernel>();
  table["Copy"] = kernel<CopyKernel>();
  table["Where"] = kernel<WhereKernel>();
}

}  // namespace lowtide::ref
