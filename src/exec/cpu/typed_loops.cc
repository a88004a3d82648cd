// Elementwise functions in double precision, by the C library, and the few of f32 that are not
// worth vectors. The formulas are those of simd_map.h.
#include <cmath>
#include <numbers>

#include "exec/cpu/typed_map.h"

namespace lowtide::exec_cpu {
namespace {

template <class T>
using C = const Constants<T>&;
using D = C<double>;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
}
double log_add_exp(double a, double b) {
  if (a == b) return a + std::numbers::ln2;  // infinities, too
  const double most = a > b || a != a ? a : b, least = a > b || a != a ? b : a;
  return most + std::log1p(std::exp(least - most));
}
double clamp(double x, double low, double high) {
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
double normal_gate(double x) {
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
}
constexpr double kTanhScale = 0.79788456080286535588;  // sqrt(2 / pi)
double tanh_gate(double x) {
  return std::tanh(kTanhScale * (x + 0.044715 * x * x * x));
}
double gelu_tanh_slope(double x) {
  const double t = tanh_gate(x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kTanhScale * (1 + 3 * 0.044715 * x * x);
}
double silu_slope(double x) {
  const double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}
double mish_slope(double x) {
  const double t = std::tanh(softplus(x));
  return t + x * (1 - t * t) * sigmoid(x);
}

template <auto function>
constexpr MapLoop kOf1 = typed_map1<function, double, double>;
template <auto function>
constexpr MapLoop kOf2 = typed_map2<function, double, double>;
template <auto function>
constexpr MapLoop kTest = typed_map2<function, double, uint8_t>;

const MapEntry kPlain[] = {
    {"Relu", 'd', 'd', 1, kOf1<[](double x, D) { return (x > 0 || x != x ? x : 0); }>},
    {"Sigmoid", 'd', 'd', 1, kOf1<[](double x, D) { return sigmoid(x); }>},
    {"Tanh", 'd', 'd', 1, kOf1<[](double x, D) { return std::tanh(x); }>},
    {"Erf", 'd', 'd', 1, kOf1<[](double x, D) { return std::erf(x); }>},
    {"Exp", 'd', 'd', 1, kOf1<[](double x, D) { return std::exp(x); }>},
    {"Log", 'd', 'd', 1, kOf1<[](double x, D) { return std::log(x); }>},
    {"Sqrt", 'd', 'd', 1, kOf1<[](double x, D) { return std::sqrt(x); }>},
    {"Reciprocal", 'd', 'd', 1, kOf1<[](double x, D) { return 1 / x; }>},
    {"Neg", 'd', 'd', 1, kOf1<[](double x, D) { return -x; }>},
    {"Abs", 'd', 'd', 1, kOf1<[](double x, D) { return std::abs(x); }>},
    {"Sin", 'd', 'd', 1, kOf1<[](double x, D) { return std::sin(x); }>},
    {"Cos", 'd', 'd', 1, kOf1<[](double x, D) { return std::cos(x); }>},
    {"Floor", 'd', 'd', 1, kOf1<[](double x, D) { return std::floor(x); }>},
    {"Ceil", 'd', 'd', 1, kOf1<[](double x, D) { return std::ceil(x); }>},
    {"Round", 'd', 'd', 1, kOf1<[](double x, D) { return std::nearbyint(x); }>},
    {"Sign", 'd', 'd', 1,
     kOf1<[](double x, D) { return (x > 0 ? 1 : (x < 0 ? -1 : (x != x ? x : 0))); }>},
    {"Softplus", 'd', 'd', 1, kOf1<[](double x, D) { return softplus(x); }>},
    {"HardSwish", 'd', 'd', 1, kOf1<[](double x, D) { return x * clamp(x + 3, 0, 6) / 6; }>},
    {"Mish", 'd', 'd', 1, kOf1<[](double x, D) { return x * std::tanh(softplus(x)); }>},
    {"LeakyRelu", 'd', 'd', 1, kOf1<[](double x, D p) { return (x >= 0 ? x : p.a * x); }>},
    {"Elu", 'd', 'd', 1, kOf1<[](double x, D p) { return (x >= 0 ? x : p.a * std::expm1(x)); }>},
    {"HardSigmoid", 'd', 'd', 1, kOf1<[](double x, D p) { return clamp(p.a * x + p.b, 0, 1); }>},
    {"Gelu", 'd', 'd', 1, kOf1<[](double x, D) { return x * normal_gate(x); }>},
    {"Gelu/tanh", 'd', 'd', 1, kOf1<[](double x, D) { return 0.5 * x * (1 + tanh_gate(x)); }>},
    {"Silu", 'd', 'd', 1, kOf1<[](double x, D) { return x * sigmoid(x); }>},
    {"Clip", 'd', 'd', 1, kOf1<[](double x, D p) { return clamp(x, p.a, p.b); }>},
    {"PowScalar", 'd', 'd', 1, kOf1<[](double x, D p) { return std::pow(x, p.a); }>},
    {"PowScalar/2", 'd', 'd', 1, kOf1<[](double x, D) { return x * x; }>},
    {"PowScalar/3", 'd', 'd', 1, kOf1<[](double x, D) { return x * x * x; }>},
    {"AffineScalar", 'd', 'd', 1, kOf1<[](double x, D p) { return p.a * x + p.b; }>},
    {"AffineScalar/scale", 'd', 'd', 1, kOf1<[](double x, D p) { return p.a * x; }>},
    {"IsNaN", 'd', 'b', 1,
     typed_map1<[](double x, D) -> uint8_t { return x != x; }, double, uint8_t>},
    {"Add", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a + b; }>},
    {"Sub", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a - b; }>},
    {"Mul", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * b; }>},
    {"Div", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a / b; }>},
    {"Max", 'd', 'd', 2, kOf2<[](double a, double b, D) { return (a > b || a != a ? a : b); }>},
    {"Min", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a < b || a != a ? a : b; }>},
    {"LogAddExp", 'd', 'd', 2, kOf2<[](double a, double b, D) { return log_add_exp(a, b); }>},
    {"Pow", 'd', 'd', 2, kOf2<[](double a, double b, D) { return std::pow(a, b); }>},
    {"Equal", 'd', 'b', 2, kTest<[](double a, double b, D) -> uint8_t { return a == b; }>},
    {"Less", 'd', 'b', 2, kTest<[](double a, double b, D) -> uint8_t { return a < b; }>},
    {"LessOrEqual", 'd', 'b', 2, kTest<[](double a, double b, D) -> uint8_t { return a <= b; }>},
    {"Greater", 'd', 'b', 2, kTest<[](double a, double b, D) -> uint8_t { return (a > b); }>},
    {"GreaterOrEqual", 'd', 'b', 2,
     kTest<[](double a, double b, D) -> uint8_t { return (a >= b); }>},
};

// a is dy; b is y for Relu, Sigmoid and Tanh, x for the others.
const MapEntry kGradients[] = {
    {"ReluGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return (b <= 0 ? 0 : a); }>},
    {"SigmoidGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * b * (1 - b); }>},
    {"TanhGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * (1 - b * b); }>},
    {"SiluGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * silu_slope(b); }>},
    {"GeluGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) {
       return a * (normal_gate(b) + b * kTanhScale * 0.5 * std::exp(-0.5 * b * b));
     }>},
    {"GeluGrad/tanh", 'd', 'd', 2,
     kOf2<[](double a, double b, D) { return a * gelu_tanh_slope(b); }>},
    {"LeakyReluGrad", 'd', 'd', 2,
     kOf2<[](double a, double b, D p) { return (b > 0 ? a : p.a * a); }>},
    {"EluGrad", 'd', 'd', 2,
     kOf2<[](double a, double b, D p) { return (b <= 0 ? a * p.a * std::exp(b) : a); }>},
    {"HardSigmoidGrad", 'd', 'd', 2, kOf2<[](double a, double b, D p) {
       const double y = p.a * b + p.b;
       return (y > 0 && y < 1 ? p.a * a : 0);
     }>},
    {"HardSwishGrad", 'd', 'd', 2,
     kOf2<[](double a, double b, D) { return (b <= -3 ? 0 : (b < 3 ? a * (2 * b + 3) / 6 : a)); }>},
    {"ClipGrad", 'd', 'd', 2,
     kOf2<[](double a, double b, D p) { return (b >= p.a && b <= p.b ? a : 0); }>},
    {"ClipGrad/open", 'd', 'd', 2,
     kOf2<[](double a, double b, D p) { return (b <= p.a || b >= p.b ? 0 : a); }>},
    {"SoftplusGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * sigmoid(b); }>},
    {"MishGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) { return a * mish_slope(b); }>},
    {"ErfGrad", 'd', 'd', 2, kOf2<[](double a, double b, D) {
       return a * 2 * std::numbers::inv_sqrtpi * std::exp(-b * b);
     }>},
    {"MseLossGrad", 'd', 'd', 2, kOf2<[](double a, double b, D p) { return p.a * (a - b); }>},
    {"RunningUpdate", 'd', 'd', 2,
     kOf2<[](double a, double b, D p) { return a + p.a * (p.b * b - a); }>},
};

// The remainder with the sign of the divisor.
template <class T>
T modulo_of(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <class T>
void add_remainders(std::vector<MapEntry>& maps, char c) {
  constexpr auto kMod = [](T a, T b, C<T>) { return modulo_of(a, b); };
  constexpr auto kFmod = [](T a, T b, C<T>) { return std::fmod(a, b); };
  maps.push_back({"Mod", c, c, 2, typed_map2<kMod, T, T>});
  maps.push_back({"Mod/fmod", c, c, 2, typed_map2<kFmod, T, T>});
}

template <class T>
void add_rarer(std::vector<MapEntry>& maps, char c) {
  constexpr auto kTan = [](T x, C<T>) { return std::tan(x); };
  constexpr auto kSinh = [](T x, C<T>) { return std::sinh(x); };
  constexpr auto kCosh = [](T x, C<T>) { return std::cosh(x); };
  constexpr auto kAsin = [](T x, C<T>) { return std::asin(x); };
  constexpr auto kAcos = [](T x, C<T>) { return std::acos(x); };
  constexpr auto kAtan = [](T x, C<T>) { return std::atan(x); };
  constexpr auto kAsinh = [](T x, C<T>) { return std::asinh(x); };
  constexpr auto kAcosh = [](T x, C<T>) { return std::acosh(x); };
  constexpr auto kAtanh = [](T x, C<T>) { return std::atanh(x); };
  maps.insert(maps.end(), {{"Tan", c, c, 1, typed_map1<kTan, T, T>},
                           {"Sinh", c, c, 1, typed_map1<kSinh, T, T>},
                           {"Cosh", c, c, 1, typed_map1<kCosh, T, T>},
                           {"Asin", c, c, 1, typed_map1<kAsin, T, T>},
                           {"Acos", c, c, 1, typed_map1<kAcos, T, T>},
                           {"Atan", c, c, 1, typed_map1<kAtan, T, T>},
                           {"Asinh", c, c, 1, typed_map1<kAsinh, T, T>},
                           {"Acosh", c, c, 1, typed_map1<kAcosh, T, T>},
                           {"Atanh", c, c, 1, typed_map1<kAtanh, T, T>}});
}

}  // namespace

std::span<const MapEntry> typed_maps() {
  static const std::vector<MapEntry> maps = [] {
    std::vector<MapEntry> all(std::begin(kPlain), std::end(kPlain));
    all.insert(all.end(), std::begin(kGradients), std::end(kGradients));
    add_remainders<float>(all, 'f');
    add_remainders<double>(all, 'd');
    add_rarer<float>(all, 'f');
    add_rarer<double>(all, 'd');
    add_integer_maps(all);
    add_cast_maps(all);
    return all;
  }();
  return maps;
}

}  // namespace lowtide::exec_cpu
