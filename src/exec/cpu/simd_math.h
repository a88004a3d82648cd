// exp, tanh and erf in single precision, written so that a compiler turns loops over them into
// vector code: no branches, no calls, no tables. Each polynomial was fitted here by iteratively
// reweighted least squares on Chebyshev nodes (Lawson's algorithm) to the relative error of the
// whole function; the errors against double precision are below 2 units in the last place for exp
// and below 3 for tanh and erf (simd_test.cc measures them).
//
// Included only by simd_body.h, inside the namespace of one instruction set.
//
// Tests: simd_test.cc.

LT_INLINE float bits_to_float(int32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// x = k ln 2 + r; exp(x) = 2^k (1 + r + r^2 P(r)). 2^k is applied in two halves so that results may
// be subnormal.
LT_INLINE float vexp(float x) {
  x = x > 89.0f ? 89.0f : x;  // NaN stays
  x = x < -104.0f ? -104.0f : x;
  const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float t = x * 1.44269504f + shifter;
  const int32_t k = __builtin_bit_cast(int32_t, t) - 0x4B400000;
  const float kf = t - shifter;
  float r = x - kf * 0.693359375f;
  r = r - kf * -2.12194440e-4f;
  float p = 1.395059982e-03f;
  p = p * r + 8.368954062e-03f;
  p = p * r + 4.166620597e-02f;
  p = p * r + 1.666651815e-01f;
  p = p * r + 0.5f;
  const float e = (p * (r * r) + r) + 1.0f;
  const int32_t half = k >> 1;
  return (e * bits_to_float((half + 127) << 23)) * bits_to_float((k - half + 127) << 23);
}

LT_INLINE float vabs(float x) {
  return bits_to_float(__builtin_bit_cast(int32_t, x) & 0x7fffffff);
}
LT_INLINE float with_sign(float magnitude, float x) {
  return bits_to_float(__builtin_bit_cast(int32_t, magnitude) |
                       (__builtin_bit_cast(int32_t, x) & static_cast<int32_t>(0x80000000)));
}

// Small arguments by an odd polynomial, others by 1 - 2 / (exp(2x) + 1).
LT_INLINE float vtanh(float x) {
  const float a = vabs(x);
  const float z = x * x;
  float p = -5.603905302e-03f;
  p = p * z + 2.055171132e-02f;
  p = p * z + -5.371410400e-02f;
  p = p * z + 1.333115250e-01f;
  p = p * z + -3.333327174e-01f;
  const float small = a + a * (z * p);
  const float large = 1.0f - 2.0f / (vexp(2.0f * a) + 1.0f);
  return with_sign(a < 0.63f ? small : large, x);
}

// Small arguments by an odd polynomial; others by 1 - exp(-Q(x)) with Q fitted to -log(erfc(x)) up
// to 4, where erf is 1.
LT_INLINE float verf(float x) {
  const float a = vabs(x);
  const float z = x * x;
  float p = 8.215423441e-05f;
  p = p * z + -8.105965098e-04f;
  p = p * z + 5.197796971e-03f;
  p = p * z + -2.685810439e-02f;
  p = p * z + 1.128367260e-01f;
  p = p * z + -3.761263192e-01f;
  p = p * z + 1.128379226e+00f;
  const float c = a > 4.0f ? 4.0f : a;
  float q = 2.109505112e-05f;
  q = q * c + -4.344626213e-04f;
  q = q * c + 4.171063192e-03f;
  q = q * c + -2.511942759e-02f;
  q = q * c + 1.082800925e-01f;
  q = q * c + 6.333469152e-01f;
  q = q * c + 1.129514933e+00f;
  q = q * c + -1.746844500e-04f;
  return with_sign(a < 0.93f ? a * p : 1.0f - vexp(-q), x);
}

LT_INLINE float vsigmoid(float x) {
  return 1.0f / (1.0f + vexp(-x));
}

// tanh(log(1 + exp(x))) of Mish, as a ratio of polynomials in exp(x).
LT_INLINE float tanh_softplus(float x) {
  const float e = vexp(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return n / (n + 2.0f);
}
