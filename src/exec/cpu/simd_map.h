// Elementwise functions and their loops. Included only by simd_body.h.
//
// A function is a struct with `static Out f(inputs..., const Params&)`. The loops have a fast form
// for contiguous and for constant operands in the inner dimension and a strided one for the rest.

struct Params {
  float a, b, c, d;
};

template <class T>
inline T load(const char* p) {
  return *reinterpret_cast<const T*>(p);
}

template <class F, class In, class Out>
void map1(const MapCall& call) {
  const Params p{call.params[0], call.params[1], call.params[2], call.params[3]};
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
  const Params p{call.params[0], call.params[1], call.params[2], call.params[3]};
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

// Where: byte condition, operands of any 4-, 8- or 1-byte type.
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

// ---- functions
// ----------------------------------------------------------------------------------------------------

#define LT_UNARY(Name, expression)                             \
  struct Name {                                                \
    template <class T>                                         \
    static inline T f(T x, [[maybe_unused]] const Params& p) { \
      return static_cast<T>(expression);                       \
    }                                                          \
  };
#define LT_BINARY(Name, expression)                                 \
  struct Name {                                                     \
    template <class T>                                              \
    static inline T f(T a, T b, [[maybe_unused]] const Params& p) { \
      return static_cast<T>(expression);                            \
    }                                                               \
  };
#define LT_COMPARE(Name, expression)                                      \
  struct Name {                                                           \
    template <class T>                                                    \
    static inline uint8_t f(T a, T b, [[maybe_unused]] const Params& p) { \
      return static_cast<uint8_t>(expression);                            \
    }                                                                     \
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
LT_UNARY(FnAbs, x < 0 ? -x : x)
LT_UNARY(FnAbsFloat, vabs(x))
LT_UNARY(FnSin, __builtin_sinf(x))
LT_UNARY(FnCos, __builtin_cosf(x))
LT_UNARY(FnFloor, __builtin_floorf(x))
LT_UNARY(FnCeil, __builtin_ceilf(x))
LT_UNARY(FnRound, __builtin_rintf(x))
LT_UNARY(FnSign, x > 0 ? 1 : (x < 0 ? -1 : 0))
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
LT_UNARY(FnIdentity, x)
LT_UNARY(FnNot, x == 0 ? 1 : 0)

inline float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

struct FnIsNan {
  static inline uint8_t f(float x, const Params&) { return static_cast<uint8_t>(x != x); }
};
template <class Out>
struct FnCast {
  template <class In>
  static inline Out f(In x, const Params&) {
    return static_cast<Out>(x);
  }
};
struct FnCastBool {
  template <class In>
  static inline uint8_t f(In x, const Params&) {
    return static_cast<uint8_t>(x != In(0));
  }
};

LT_BINARY(FnAdd, a + b)
LT_BINARY(FnSub, a - b)
LT_BINARY(FnMul, a* b)
LT_BINARY(FnDiv, a / b)
LT_BINARY(FnMax, a > b || a != a ? a : b)
LT_BINARY(FnMin, a < b || a != a ? a : b)
LT_BINARY(FnPow2, __builtin_powf(a, b))
LT_BINARY(FnModFloat, a - b * __builtin_floorf(a / b))
LT_BINARY(FnAnd, (a != 0) & (b != 0))
LT_BINARY(FnOr, (a != 0) | (b != 0))
LT_BINARY(FnXor, (a != 0) ^ (b != 0))
// Integers: division rounds towards zero, the remainder has the divisor's sign; a zero divisor
// gives 0 instead of a trap.
LT_BINARY(FnDivInt, b == 0 ? 0 : (b == -1 ? -a : a / b))
LT_BINARY(FnModInt,
          b == 0 || b == -1 ? 0 : ((a % b != 0 && ((a % b < 0) != (b < 0))) ? a % b + b : a % b))
LT_COMPARE(FnEqual, a == b)
LT_COMPARE(FnLess, a < b)
LT_COMPARE(FnLessOrEqual, a <= b)
LT_COMPARE(FnGreater, a > b)
LT_COMPARE(FnGreaterOrEqual, a >= b)

// Gradients: a is dy; b is y for Relu, Sigmoid and Tanh, x for the others.
LT_BINARY(FnReluGrad, b > 0.0f ? a : 0.0f)
LT_BINARY(FnSigmoidGrad, a* b*(1.0f - b))
LT_BINARY(FnTanhGrad, a*(1.0f - b * b))
LT_BINARY(FnSiluGrad, a* silu_slope(b))
LT_BINARY(FnGeluGrad,
          a*(0.5f * (1.0f + verf(b * 0.70710678f)) + b * 0.39894228f * vexp(-0.5f * b * b)))
LT_BINARY(FnGeluTanhGrad, a* gelu_tanh_slope(b))
LT_BINARY(FnLeakyReluGrad, b > 0.0f ? a : p.a * a)
LT_BINARY(FnEluGrad, b > 0.0f ? a : a * p.a * vexp(b))
LT_BINARY(FnHardSigmoidGrad, inside(p.a* b + p.b) ? p.a* a : 0.0f)
LT_BINARY(FnHardSwishGrad, b <= -3.0f ? 0.0f : (b >= 3.0f ? a : a * (b * (1.0f / 3.0f) + 0.5f)))
LT_BINARY(FnClipGrad, (b >= p.a) & (b <= p.b) ? a : 0.0f)
LT_BINARY(FnSoftplusGrad, a* vsigmoid(b))
LT_BINARY(FnMishGrad, a* mish_slope(b))
LT_BINARY(FnErfGrad, a * 1.12837917f * vexp(-b * b))
LT_BINARY(FnMseLossGrad, p.a*(a - b))
LT_BINARY(FnRunningUpdate, a + p.a * (p.b * b - a))

inline bool inside(float x) {
  return (x > 0.0f) & (x < 1.0f);
}
inline float silu_slope(float x) {
  const float s = vsigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}
inline float gelu_tanh_slope(float x) {
  const float t = vtanh(0.79788456f * (x + 0.044715f * (x * x * x)));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * x * x);
}
inline float mish_slope(float x) {
  const float t = tanh_softplus(x);
  return t + x * (1.0f - t * t) * vsigmoid(x);
}

#undef LT_UNARY
#undef LT_BINARY
#undef LT_COMPARE

// ---- table
// --------------------------------------------------------------------------------------------------------

#define LT_INTEGER_MAPS(T, c)                                                         \
  {"Neg", c, c, 1, map1<FnNeg, T, T>}, {"Abs", c, c, 1, map1<FnAbs, T, T>},           \
      {"Sign", c, c, 1, map1<FnSign, T, T>}, {"Add", c, c, 2, map2<FnAdd, T, T>},     \
      {"Sub", c, c, 2, map2<FnSub, T, T>}, {"Mul", c, c, 2, map2<FnMul, T, T>},       \
      {"Div", c, c, 2, map2<FnDivInt, T, T>}, {"Mod", c, c, 2, map2<FnModInt, T, T>}, \
      {"Max", c, c, 2, map2<FnMax, T, T>}, {                                          \
    "Min", c, c, 2, map2<FnMin, T, T>                                                 \
  }
#define LT_COMPARE_MAPS(T, c)                                                                     \
  {"Equal", c, 'b', 2, map2<FnEqual, T, uint8_t>}, {"Less", c, 'b', 2, map2<FnLess, T, uint8_t>}, \
      {"LessOrEqual", c, 'b', 2, map2<FnLessOrEqual, T, uint8_t>},                                \
      {"Greater", c, 'b', 2, map2<FnGreater, T, uint8_t>}, {                                      \
    "GreaterOrEqual", c, 'b', 2, map2<FnGreaterOrEqual, T, uint8_t>                               \
  }
#define LT_CAST_MAPS(T, c)                                      \
  {"Cast", c, 'f', 1, map1<FnCast<float>, T, float>},           \
      {"Cast", c, 'd', 1, map1<FnCast<double>, T, double>},     \
      {"Cast", c, 'l', 1, map1<FnCast<int64_t>, T, int64_t>},   \
      {"Cast", c, 'i', 1, map1<FnCast<int32_t>, T, int32_t>},   \
      {"Cast", c, 'b', 1, map1<FnCast<uint8_t>, T, uint8_t>}, { \
    "Cast/bool", c, 'b', 1, map1<FnCastBool, T, uint8_t>        \
  }
#define LT_FLOAT1(kind, F) \
  { kind, 'f', 'f', 1, map1<F, float, float> }
#define LT_FLOAT2(kind, F) \
  { kind, 'f', 'f', 2, map2<F, float, float> }

const MapEntry kMaps[] = {
    LT_FLOAT1("Relu", FnRelu),
    LT_FLOAT1("Sigmoid", FnSigmoid),
    LT_FLOAT1("Tanh", FnTanh),
    LT_FLOAT1("Erf", FnErf),
    LT_FLOAT1("Exp", FnExp),
    LT_FLOAT1("Log", FnLog),
    LT_FLOAT1("Sqrt", FnSqrt),
    LT_FLOAT1("Reciprocal", FnReciprocal),
    LT_FLOAT1("Neg", FnNeg),
    LT_FLOAT1("Abs", FnAbsFloat),
    LT_FLOAT1("Sin", FnSin),
    LT_FLOAT1("Cos", FnCos),
    LT_FLOAT1("Floor", FnFloor),
    LT_FLOAT1("Ceil", FnCeil),
    LT_FLOAT1("Round", FnRound),
    LT_FLOAT1("Sign", FnSign),
    LT_FLOAT1("Softplus", FnSoftplus),
    LT_FLOAT1("HardSwish", FnHardSwish),
    LT_FLOAT1("Mish", FnMish),
    LT_FLOAT1("LeakyRelu", FnLeakyRelu),
    LT_FLOAT1("Elu", FnElu),
    LT_FLOAT1("HardSigmoid", FnHardSigmoid),
    LT_FLOAT1("Gelu", FnGelu),
    LT_FLOAT1("Gelu/tanh", FnGeluTanh),
    LT_FLOAT1("Silu", FnSilu),
    LT_FLOAT1("Clip", FnClip),
    LT_FLOAT1("PowScalar", FnPow),
    LT_FLOAT1("PowScalar/2", FnSquare),
    LT_FLOAT1("PowScalar/3", FnCube),
    LT_FLOAT1("AffineScalar", FnAffine),
    {"IsNaN", 'f', 'b', 1, map1<FnIsNan, float, uint8_t>},
    {"Not", 'b', 'b', 1, map1<FnNot, uint8_t, uint8_t>},
    {"Copy", '4', '4', 1, map1<FnIdentity, uint32_t, uint32_t>},
    {"Copy", '8', '8', 1, map1<FnIdentity, uint64_t, uint64_t>},
    {"Copy", '2', '2', 1, map1<FnIdentity, uint16_t, uint16_t>},
    {"Copy", '1', '1', 1, map1<FnIdentity, uint8_t, uint8_t>},
    LT_FLOAT2("Add", FnAdd),
    LT_FLOAT2("Sub", FnSub),
    LT_FLOAT2("Mul", FnMul),
    LT_FLOAT2("Div", FnDiv),
    LT_FLOAT2("Max", FnMax),
    LT_FLOAT2("Min", FnMin),
    LT_FLOAT2("Pow", FnPow2),
    LT_FLOAT2("Mod", FnModFloat),
    LT_FLOAT2("ReluGrad", FnReluGrad),
    LT_FLOAT2("SigmoidGrad", FnSigmoidGrad),
    LT_FLOAT2("TanhGrad", FnTanhGrad),
    LT_FLOAT2("GeluGrad", FnGeluGrad),
    LT_FLOAT2("GeluGrad/tanh", FnGeluTanhGrad),
    LT_FLOAT2("SiluGrad", FnSiluGrad),
    LT_FLOAT2("LeakyReluGrad", FnLeakyReluGrad),
    LT_FLOAT2("EluGrad", FnEluGrad),
    LT_FLOAT2("HardSigmoidGrad", FnHardSigmoidGrad),
    LT_FLOAT2("HardSwishGrad", FnHardSwishGrad),
    LT_FLOAT2("ClipGrad", FnClipGrad),
    LT_FLOAT2("SoftplusGrad", FnSoftplusGrad),
    LT_FLOAT2("MishGrad", FnMishGrad),
    LT_FLOAT2("ErfGrad", FnErfGrad),
    LT_FLOAT2("MseLossGrad", FnMseLossGrad),
    LT_FLOAT2("RunningUpdate", FnRunningUpdate),
    {"And", 'b', 'b', 2, map2<FnAnd, uint8_t, uint8_t>},
    {"Or", 'b', 'b', 2, map2<FnOr, uint8_t, uint8_t>},
    {"Xor", 'b', 'b', 2, map2<FnXor, uint8_t, uint8_t>},
    LT_INTEGER_MAPS(int64_t, 'l'),
    LT_INTEGER_MAPS(int32_t, 'i'),
    LT_COMPARE_MAPS(float, 'f'),
    LT_COMPARE_MAPS(int64_t, 'l'),
    LT_COMPARE_MAPS(int32_t, 'i'),
    LT_COMPARE_MAPS(uint8_t, 'b'),
    LT_CAST_MAPS(float, 'f'),
    LT_CAST_MAPS(double, 'd'),
    LT_CAST_MAPS(int64_t, 'l'),
    LT_CAST_MAPS(int32_t, 'i'),
    LT_CAST_MAPS(uint8_t, 'b'),
    {"Where", '4', '4', 3, map_where<uint32_t>},
    {"Where", '8', '8', 3, map_where<uint64_t>},
    {"Where", '1', '1', 3, map_where<uint8_t>},
};

#undef LT_INTEGER_MAPS
#undef LT_COMPARE_MAPS
#undef LT_CAST_MAPS
#undef LT_FLOAT1
#undef LT_FLOAT2
