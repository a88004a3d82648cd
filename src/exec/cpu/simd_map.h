// Elementwise functions and their loops. Included only by simd_body.h.
//
// A function is a struct with `static Out f(inputs..., const Params&)`. The loops have a fast form
// for contiguous and for constant operands in the inner dimension and a strided one for the rest.
//
// Tests: simd_test.cc.

struct Params {
  float a, b, c, d;
};

template <class T>
inline T load(const char* p) {
  return *reinterpret_cast<const T*>(p);
}

template <class F, class In, class Out>
void map1(const MapCall& call) {
  const Params p{call.params.f[0], call.params.f[1], call.params.f[2], call.params.f[3]};
  const int64_t n = call.n1;
  for (int64_t row = 0; row < call.n0; ++row) {
    Out* y = reinterpret_cast<Out*>(call.out + row * call.step0[0]);
    const char* x = call.in[0] + row * call.step0[1];
    const int64_t sx = call.step1[1];
    if (sx == static_cast<int64_t>(sizeof(In))) {
      const In* xs = reinterpret_cast<const In*>(x);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(xs[i], p);
    } else if (sx == 0) {
      const Out value = F::f(load<In>(x), p);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(load<In>(x + i * sx), p);
    }
  }
}

template <class F, class In, class Out>
void map2(const MapCall& call) {
  const Params p{call.params.f[0], call.params.f[1], call.params.f[2], call.params.f[3]};
  const int64_t n = call.n1;
  const int64_t sa = call.step1[1], sb = call.step1[2];
  const int64_t unit = static_cast<int64_t>(sizeof(In));
  for (int64_t row = 0; row < call.n0; ++row) {
    Out* y = reinterpret_cast<Out*>(call.out + row * call.step0[0]);
    const char* a = call.in[0] + row * call.step0[1];
    const char* b = call.in[1] + row * call.step0[2];
    const In* as = reinterpret_cast<const In*>(a);
    const In* bs = reinterpret_cast<const In*>(b);
    if (sa == unit && sb == unit) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(as[i], bs[i], p);
    } else if (sa == unit && sb == 0) {
      const In value = *bs;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(as[i], value, p);
    } else if (sa == 0 && sb == unit) {
      const In value = *as;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(value, bs[i], p);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = F::f(load<In>(a + i * sa), load<In>(b + i * sb), p);
    }
  }
}

// Where: byte condition, operands of any type.
template <class T>
void map_where(const MapCall& call) {
  const int64_t n = call.n1;
  const int64_t sc = call.step1[1], sa = call.step1[2], sb = call.step1[3];
  const int64_t unit = static_cast<int64_t>(sizeof(T));
  for (int64_t row = 0; row < call.n0; ++row) {
    T* y = reinterpret_cast<T*>(call.out + row * call.step0[0]);
    const char* c = call.in[0] + row * call.step0[1];
    const char* a = call.in[1] + row * call.step0[2];
    const char* b = call.in[2] + row * call.step0[3];
    const uint8_t* cs = reinterpret_cast<const uint8_t*>(c);
    const T* as = reinterpret_cast<const T*>(a);
    const T* bs = reinterpret_cast<const T*>(b);
    if (sc == 1 && sa == unit && sb == unit) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = cs[i] != 0 ? as[i] : bs[i];
    } else if (sc == 1 && sa == unit && sb == 0) {
      const T value = *bs;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = cs[i] != 0 ? as[i] : value;
    } else if (sc == 1 && sa == 0 && sb == unit) {
      const T value = *as;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = cs[i] != 0 ? value : bs[i];
    } else {
      for (int64_t i = 0; i < n; ++i)
        y[i] = load<uint8_t>(c + i * sc) != 0 ? load<T>(a + i * sa) : load<T>(b + i * sb);
    }
  }
}

// ---- functions ----

#define LT_UNARY(Name, expression)                                \
  struct Name {                                                   \
    template <class T>                                            \
    LT_INLINE static T f(T x, [[maybe_unused]] const Params& p) { \
      return static_cast<T>(expression);                          \
    }                                                             \
  };
#define LT_BINARY(Name, expression)                                    \
  struct Name {                                                        \
    template <class T>                                                 \
    LT_INLINE static T f(T a, T b, [[maybe_unused]] const Params& p) { \
      return static_cast<T>(expression);                               \
    }                                                                  \
  };
#define LT_COMPARE(Name, expression)                                         \
  struct Name {                                                              \
    template <class T>                                                       \
    LT_INLINE static uint8_t f(T a, T b, [[maybe_unused]] const Params& p) { \
      return static_cast<uint8_t>(expression);                               \
    }                                                                        \
  };

LT_UNARY(FnRelu, x > 0 || x != x ? x : 0)
LT_UNARY(FnSigmoid, vsigmoid(x))
LT_UNARY(FnTanh, vtanh(x))
LT_UNARY(FnErf, verf(x))
LT_UNARY(FnExp, vexp(x))
LT_UNARY(FnLog, __builtin_logf(x))
LT_UNARY(FnSqrt, __builtin_sqrtf(x))
LT_UNARY(FnReciprocal, 1.0f / x)
LT_UNARY(FnNeg, -x)
LT_UNARY(FnAbs, vabs(x))
LT_UNARY(FnSin, __builtin_sinf(x))
LT_UNARY(FnCos, __builtin_cosf(x))
LT_UNARY(FnFloor, __builtin_floorf(x))
LT_UNARY(FnCeil, __builtin_ceilf(x))
LT_UNARY(FnRound, __builtin_rintf(x))
LT_UNARY(FnSign, x > 0 ? 1 : (x < 0 ? -1 : (x != x ? x : 0)))
LT_UNARY(FnSoftplus, x > 20.0f ? x : __builtin_log1pf(vexp(x)))
LT_UNARY(FnHardSwish, x*(x <= -3.0f ? 0.0f : (x >= 3.0f ? 1.0f : x * (1.0f / 6.0f) + 0.5f)))
LT_UNARY(FnMish, x* tanh_softplus(x))
LT_UNARY(FnLeakyRelu, x >= 0.0f ? x : p.a * x)
LT_UNARY(FnElu, x >= 0.0f ? x : p.a * (vexp(x) - 1.0f))
LT_UNARY(FnHardSigmoid, clamp(p.a* x + p.b, 0.0f, 1.0f))
LT_UNARY(FnGelu, 0.5f * x * (1.0f + verf(x * 0.70710678f)))
LT_UNARY(FnGeluTanh, 0.5f * x * (1.0f + vtanh(0.79788456f * (x + 0.044715f * (x * x * x)))))
LT_UNARY(FnSilu, x* vsigmoid(x))
LT_UNARY(FnClip, clamp(x, p.a, p.b))
LT_UNARY(FnPow, __builtin_powf(x, p.a))
LT_UNARY(FnSquare, x* x)
LT_UNARY(FnCube, x* x* x)
LT_UNARY(FnAffine, p.a* x + p.b)
LT_UNARY(FnScale, p.a* x)
LT_UNARY(FnIdentity, x)
LT_UNARY(FnNot, x == 0 ? 1 : 0)

LT_INLINE float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

struct FnIsNan {
  static inline uint8_t f(float x, const Params&) { return static_cast<uint8_t>(x != x); }
};
LT_BINARY(FnAdd, a + b)
LT_BINARY(FnSub, a - b)
LT_BINARY(FnMul, a* b)
LT_BINARY(FnDiv, a / b)
LT_BINARY(FnMax, a > b || a != a ? a : b)
LT_BINARY(FnMin, a < b || a != a ? a : b)
LT_BINARY(FnLogAddExp,
          a == b ? a + 0.69314718f
                 : (a > b || a != a ? a : b) + __builtin_log1pf(vexp((a > b || a != a ? b : a) -
                                                                     (a > b || a != a ? a : b))))
LT_BINARY(FnPow2, __builtin_powf(a, b))
LT_BINARY(FnAnd, (a != 0) & (b != 0))
LT_BINARY(FnOr, (a != 0) | (b != 0))
LT_BINARY(FnXor, (a != 0) ^ (b != 0))
LT_COMPARE(FnEqual, a == b)
LT_COMPARE(FnLess, a < b)
LT_COMPARE(FnLessOrEqual, a <= b)
LT_COMPARE(FnGreater, a > b)
LT_COMPARE(FnGreaterOrEqual, a >= b)

// Gradients: a is dy; b is y for Relu, Sigmoid and Tanh, x for the others.
LT_BINARY(FnReluGrad, b <= 0.0f ? 0.0f : a)
LT_BINARY(FnSigmoidGrad, a* b*(1.0f - b))
LT_BINARY(FnTanhGrad, a*(1.0f - b * b))
LT_BINARY(FnSiluGrad, a* silu_slope(b))
LT_BINARY(FnGeluGrad,
          a*(0.5f * (1.0f + verf(b * 0.70710678f)) + b * 0.39894228f * vexp(-0.5f * b * b)))
LT_BINARY(FnGeluTanhGrad, a* gelu_tanh_slope(b))
LT_BINARY(FnLeakyReluGrad, b > 0.0f ? a : p.a * a)
LT_BINARY(FnEluGrad, b <= 0.0f ? a * p.a * vexp(b) : a)
LT_BINARY(FnHardSigmoidGrad, inside(p.a* b + p.b) ? p.a* a : 0.0f)
LT_BINARY(FnHardSwishGrad, b <= -3.0f ? 0.0f : (b < 3.0f ? a * (b * (1.0f / 3.0f) + 0.5f) : a))
LT_BINARY(FnClipGrad, ((b >= p.a) & (b <= p.b)) ? a : 0.0f)
LT_BINARY(FnClipGradOpen, ((b <= p.a) | (b >= p.b)) ? 0.0f : a)
LT_BINARY(FnSoftplusGrad, a* vsigmoid(b))
LT_BINARY(FnMishGrad, a* mish_slope(b))
LT_BINARY(FnErfGrad, a * 1.12837917f * vexp(-b * b))
LT_BINARY(FnMseLossGrad, p.a*(a - b))
LT_BINARY(FnRunningUpdate, a + p.a * (p.b * b - a))

LT_INLINE bool inside(float x) {
  return (x > 0.0f) & (x < 1.0f);
}
LT_INLINE float silu_slope(float x) {
  const float s = vsigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}
LT_INLINE float gelu_tanh_slope(float x) {
  const float t = vtanh(0.79788456f * (x + 0.044715f * (x * x * x)));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * x * x);
}
LT_INLINE float mish_slope(float x) {
  const float t = tanh_softplus(x);
  return t + x * (1.0f - t * t) * vsigmoid(x);
}

#undef LT_UNARY
#undef LT_BINARY
#undef LT_COMPARE
