// The loops of simd.h for f64: the same functions under the same names, so that a kernel is written
// once over its number type T and takes its loops from loops_of<T>(). f64 is rare, so they are
// plain and compiled once, for any processor.
//
// Tests: simd_test.cc.
#pragma once

#include <cstdint>

#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {

struct WideLoops {
  static void max_and_sum(const double* x, int64_t n, double* max, double* sum);
  static void softmax_row(const double* x, double* y, int64_t n);
  static void log_softmax_row(const double* x, double* y, int64_t n);
  static void softmax_columns(const double* x, double* y, int64_t rows, int64_t stride,
                              int64_t cols, bool log);
  static void softmax_grad_row(const double* dy, const double* y, double* dx, int64_t n);
  static void log_softmax_grad_row(const double* dy, const double* y, double* dx, int64_t n);
  static void softmax_grad_columns(const double* dy, const double* y, double* dx, int64_t rows,
                                   int64_t stride, int64_t cols, bool log);
  static void log_sum_exp_columns(const double* x, int64_t rows, int64_t stride, int64_t cols,
                                  double* lse);
  static void scaled_exp_row(const double* x, double* y, int64_t n, double lse, double scale);

  static double sum_of_squared_differences(const double* a, const double* b, int64_t n);

  static void layer_norm_row(const double* x, const double* scale, const double* bias, double* y,
                             int64_t n, double epsilon, double* mean, double* rstd);
  static void layer_norm_grad_row(const double* dy, const double* x, const double* scale,
                                  double* dx, int64_t n, double mean, double rstd, double* dscale,
                                  double* dbias);
  static void rms_norm_row(const double* x, const double* scale, double* y, int64_t n,
                           double epsilon, double* rstd);
  static void rms_norm_grad_row(const double* dy, const double* x, const double* scale, double* dx,
                                int64_t n, double rstd, double* dscale);

  static void moments_rows(const double* x, int64_t rows, int64_t cols, const double* shift,
                           double* s1, double* s2);
  static void moments_span(const double* x, int64_t n, double shift, double* s1, double* s2);
  static void affine_rows(const double* x, double* y, int64_t rows, int64_t cols, const double* a,
                          const double* b);
  static void affine_span(const double* x, double* y, int64_t n, double a, double b);
  static void grad_moments_rows(const double* dy, const double* x, int64_t rows, int64_t cols,
                                const double* mean, double* s1, double* s2);
  static void grad_moments_span(const double* dy, const double* x, int64_t n, double mean,
                                double* s1, double* s2);
  static void affine2_rows(const double* dy, const double* x, double* dx, int64_t rows,
                           int64_t cols, const double* mean, const double* a, const double* b,
                           const double* c);
  static void affine2_span(const double* dy, const double* x, double* dx, int64_t n, double mean,
                           double a, double b, double c);

  static void pool_max_grad_tap(const double* dy, const uint8_t* index, uint8_t tap, int64_t n,
                                double* dx);
  static void add_scaled(const double* x, double scale, int64_t n, double* y);
  static void add(const double* x, int64_t n, double* y);

  static void adamw(double* param, const double* grad, double* m, double* v, int64_t n,
                    const AdamStepOf<double>& step);
  static void sgd(double* param, const double* grad, double* momentum, int64_t n,
                  const SgdStepOf<double>& step);

  static void dropout(const double* x, const uint32_t* words, int64_t n, float ratio, double scale,
                      double* y);
  static void uniform(const uint32_t* words, int64_t n, double low, double high, double* y);
};

inline const Loops& loops_of(float) {
  return loops();
}
inline WideLoops loops_of(double) {
  return {};
}

}  // namespace lowtide::exec_cpu
