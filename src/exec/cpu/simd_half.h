// Floats of 16 bits to floats and back, by the bits: as base/half.h, which says how and which may
// not be included here. Included only by simd_body.h.
//
// Tests: simd_test.cc.

void widen_f16(const uint16_t* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = x[i];
    const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
    const float number = __builtin_bit_cast(float, magnitude << 13) * 0x1.0p112f;
    const uint32_t finite = __builtin_bit_cast(uint32_t, number);
    const uint32_t other = 0x7F800000u | ((magnitude & 0x3FFu) << 13);
    y[i] = __builtin_bit_cast(float, sign | (magnitude >= 0x7C00u ? other : finite));
  }
}

void widen_bf16(const uint16_t* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = __builtin_bit_cast(float, uint32_t{x[i]} << 16);
}

void narrow_f16(const float* x, int64_t n, uint16_t* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    const uint32_t small = __builtin_bit_cast(uint32_t, sum) - 0x3F000000u;
    const uint32_t normal = ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
    uint32_t result = magnitude < 0x38800000u ? small : normal;
    result = magnitude >= 0x477FF000u ? 0x7C00u : result;
    result = magnitude > 0x7F800000u ? 0x7E00u : result;
    y[i] = static_cast<uint16_t>(sign | result);
  }
}

void narrow_bf16(const float* x, int64_t n, uint16_t* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
  }
}
