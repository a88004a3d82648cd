// The vector loops: plain functions on contiguous or strided floats, without threads, allocation or
// knowledge of ops' shapes. They are compiled once per instruction set (simd_base.cc, simd_avx2.cc,
// simd_avx512.cc include the same bodies in namespaces of their own) and the best set that the
// processor has is chosen once. The bodies include nothing that defines inline functions, because
// the linker could keep an AVX-512 copy of such a function for everyone.
#pragma once

#include <cstdint>
#include <span>

namespace lowtide::exec_cpu {

// The constants of an elementwise function, in the number of the loop that reads them: f of floats,
// d of doubles, i of integers (its lowest bits, for u64 all of them).
struct MapParams {
  float f[4];
  double d[4];
  int64_t i[4];
};

// One elementwise loop over n0 x n1 points. Operand 0 is the output; steps are in bytes. The output
// may be one of the inputs.
struct MapCall {
  char* out;
  const char* in[3];
  int64_t step0[4];
  int64_t step1[4];
  int64_t n0;
  int64_t n1;
  MapParams params;
};
using MapLoop = void (*)(const MapCall& call);

struct MapEntry {
  const char* kind;  // of the op, or "Gelu/tanh"-like variants that the builder names
  // The type of all inputs: 'f' f32, 'd' f64, 'l' i64, 'i' i32, 's' i16, 'a' i8, 'L' u64, 'I' u32,
  // 'S' u16, 'A' u8, 'b' bool; of ops that only move elements their size: '1', '2', ...
  char in;
  char out;
  int inputs;
  MapLoop loop;
};

// How AdamW and SGD change one parameter; see update.cc for the meaning.
template <class T>
struct AdamStepOf {
  T beta1, beta2, one_minus_beta1, one_minus_beta2, decay, step_size, inverse_root_correction,
      epsilon;
  T added_decay = 0;  // times the parameter, to the gradient: Adam without W
};
template <class T>
struct SgdStepOf {
  T learning_rate, momentum, weight_decay;
  bool nesterov = false;
};
using AdamStep = AdamStepOf<float>;
using SgdStep = SgdStepOf<float>;

struct Loops {
  const char* name;
  const MapEntry* maps;
  int map_count;

  // Rows of a softmax: n contiguous elements, or `cols` (at most kColumns) neighbouring columns,
  // rows `stride` apart.
  void (*max_and_sum)(const float* x, int64_t n, float* max, float* sum);
  void (*softmax_row)(const float* x, float* y, int64_t n);
  void (*log_softmax_row)(const float* x, float* y, int64_t n);
  void (*softmax_columns)(const float* x, float* y, int64_t rows, int64_t stride, int64_t cols,
                          bool log);
  void (*softmax_grad_row)(const float* dy, const float* y, float* dx, int64_t n);
  void (*log_softmax_grad_row)(const float* dy, const float* y, float* dx, int64_t n);
  void (*softmax_grad_columns)(const float* dy, const float* y, float* dx, int64_t rows,
                               int64_t stride, int64_t cols, bool log);
  // log(sum(exp)) of columns; y = scale * exp(x - lse) of a row or of columns.
  void (*log_sum_exp_columns)(const float* x, int64_t rows, int64_t stride, int64_t cols,
                              float* lse);
  void (*scaled_exp_row)(const float* x, float* y, int64_t n, float lse, float scale);

  // Sums. sum_rows adds `rows` rows of `cols` elements into acc.
  double (*sum)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);
  double (*sum_of_squared_differences)(const float* a, const float* b, int64_t n);
  void (*sum_rows)(const float* x, int64_t rows, int64_t stride, int64_t cols, float* acc);
  void (*max_rows)(const float* x, int64_t rows, int64_t stride, int64_t cols, float* acc);

  // Normalisation over contiguous rows; see normalization.cc.
  void (*layer_norm_row)(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                         float epsilon, float* mean, float* rstd);
  void (*layer_norm_grad_row)(const float* dy, const float* x, const float* scale, float* dx,
                              int64_t n, float mean, float rstd, float* dscale, float* dbias);
  void (*rms_norm_row)(const float* x, const float* scale, float* y, int64_t n, float epsilon,
                       float* rstd);
  void (*rms_norm_grad_row)(const float* dy, const float* x, const float* scale, float* dx,
                            int64_t n, float rstd, float* dscale);

  // Batch normalisation. The *_rows forms have one statistic per column, the *_span forms one for
  // the whole span.
  void (*moments_rows)(const float* x, int64_t rows, int64_t cols, const float* shift, double* s1,
                       double* s2);
  void (*moments_span)(const float* x, int64_t n, float shift, double* s1, double* s2);
  void (*affine_rows)(const float* x, float* y, int64_t rows, int64_t cols, const float* a,
                      const float* b);
  void (*affine_span)(const float* x, float* y, int64_t n, float a, float b);
  void (*grad_moments_rows)(const float* dy, const float* x, int64_t rows, int64_t cols,
                            const float* mean, double* s1, double* s2);
  void (*grad_moments_span)(const float* dy, const float* x, int64_t n, float mean, double* s1,
                            double* s2);
  // dx = a * dy + b * (x - mean) + c; with the mean within c digits would be lost where it is large
  void (*affine2_rows)(const float* dy, const float* x, float* dx, int64_t rows, int64_t cols,
                       const float* mean, const float* a, const float* b, const float* c);
  void (*affine2_span)(const float* dy, const float* x, float* dx, int64_t n, float mean, float a,
                       float b, float c);

  // Pooling over n neighbouring channels: one tap at a time.
  void (*pool_max_tap)(const float* x, int64_t n, uint8_t tap, float* best, uint8_t* index);
  void (*pool_max_grad_tap)(const float* dy, const uint8_t* index, uint8_t tap, int64_t n,
                            float* dx);
  void (*add_scaled)(const float* x, float scale, int64_t n, float* y);  // y += scale * x
  void (*add)(const float* x, int64_t n, float* y);                      // y += x
  // y = sum of weights[t] * x[offsets[t] ...], at least one of them.
  void (*weighted_sum)(const float* x, const int64_t* offsets, const float* weights, int64_t taps,
                       int64_t n, float* y);

  // Updates of n parameters.
  void (*adamw)(float* param, const float* grad, float* m, float* v, int64_t n,
                const AdamStep& step);
  void (*sgd)(float* param, const float* grad, float* momentum, int64_t n, const SgdStep& step);

  // The words of elements 4 * first_group ... of a Philox stream (base/philox.h), four per group.
  void (*philox)(uint64_t first_group, int64_t groups, const uint32_t* key, uint32_t stream,
                 uint32_t step, uint32_t* words);
  // x * scale where the word's uniform draw is at least `ratio` (the smallest float that is), else
  // 0.
  void (*dropout)(const float* x, const uint32_t* words, int64_t n, float ratio, float scale,
                  float* y);
  void (*uniform)(const uint32_t* words, int64_t n, float low, float high, float* y);

  // Floats of 16 bits (base/half.h) to floats and back, rounded to nearest even.
  void (*widen_f16)(const uint16_t* x, int64_t n, float* y);
  void (*widen_bf16)(const uint16_t* x, int64_t n, float* y);
  void (*narrow_f16)(const float* x, int64_t n, uint16_t* y);
  void (*narrow_bf16)(const float* x, int64_t n, uint16_t* y);

  // 4-byte transpose of a tile: y[c * y_stride + r] = x[r * x_stride + c].
  void (*transpose_tile)(const uint32_t* x, int64_t x_stride, uint32_t* y, int64_t y_stride,
                         int64_t rows, int64_t cols);
};

inline constexpr int64_t kColumns = 256;

// The loops for this processor.
const Loops& loops();
// Every compiled set that this processor can run, plainest first. For tests.
std::span<const Loops* const> runnable_loops();
// The elementwise loops of f64 and of integers, and all casts between types: compiled once
// (typed_loops.cc).
std::span<const MapEntry> typed_maps();
// The elementwise loop of a kind and types, or null; by default of loops() and typed_maps().
MapLoop find_map(const Loops& set, const char* kind, char in, char out, int inputs);
MapLoop find_map(const char* kind, char in, char out, int inputs);

}  // namespace lowtide::exec_cpu
