// The scalar functions of the elementwise ops: one formula each, in the precision of T. A gradient
// function takes the gradient of the result and whatever its op saves: the operand (x) or the
// result (y).
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

#include "exec/ref/kernels.h"

namespace lowtide::ref {

// The attributes an elementwise formula may use, read once per call.
template <class T>
struct Scalars {
  T alpha = 0, beta = 0, low = 0, high = 0, scale = 0, shift = 0, exponent = 0;
  bool tanh_form = false;  // of Gelu
  bool open = false;       // of Clip: its limits have no slope

  explicit Scalars(const Attributes& attrs)
      : alpha(static_cast<T>(attrs.real("alpha"))),
        beta(static_cast<T>(attrs.real("beta"))),
        low(static_cast<T>(attrs.real("min", -std::numeric_limits<double>::infinity()))),
        high(static_cast<T>(attrs.real("max", std::numeric_limits<double>::infinity()))),
        scale(static_cast<T>(attrs.real("scale", 1))),
        shift(static_cast<T>(attrs.real("shift", 0))),
        exponent(static_cast<T>(attrs.real("exponent", 1))),
        tanh_form(attrs.word("approximate") == "tanh"),
        open(attrs.integer("open") != 0) {}
};

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
// log(1 + e^x) without overflow.
template <class T>
T softplus(T x) {
  return std::max<T>(x, 0) + std::log1p(std::exp(-std::abs(x)));
}
template <class T>
T hard_sigmoid(T x, T alpha, T beta) {
  return std::clamp<T>(alpha * x + beta, 0, 1);
}
// The cumulative normal distribution, or its tanh approximation, as Gelu uses it: x * gate(x).
template <class T>
T gelu_inner(T x) {
  return std::sqrt(2 / std::numbers::pi_v<T>) * (x + T(0.044715) * x * x * x);
}
template <class T>
T gelu(T x, bool tanh_form) {
  if (tanh_form) return T(0.5) * x * (1 + std::tanh(gelu_inner(x)));
  return T(0.5) * x * (1 + std::erf(x / std::numbers::sqrt2_v<T>));
}
template <class T>
T gelu_slope(T x, bool tanh_form) {
  if (tanh_form) {
    const T t = std::tanh(gelu_inner(x));
    const T inner = std::sqrt(2 / std::numbers::pi_v<T>) * (1 + T(3 * 0.044715) * x * x);
    return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * inner;
  }
  const T density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
  return T(0.5) * (1 + std::erf(x / std::numbers::sqrt2_v<T>)) + x * density;
}
template <class T>
T mish_slope(T x) {
  const T t = std::tanh(softplus(x));
  return t + x * (1 - t * t) * sigmoid(x);
}
template <class T>
T hard_swish_slope(T x) {
  return x <= -3 ? T(0) : x < 3 ? (2 * x + 3) / 6 : T(1);
}
template <class T>
T sign(T x) {
  return std::isnan(x) ? x : static_cast<T>((x > 0) - (x < 0));
}

}  // namespace lowtide::ref
