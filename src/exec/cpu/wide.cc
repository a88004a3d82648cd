#include "exec/cpu/wide.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.h"

namespace lowtide::exec_cpu {
namespace {

// NaN where any element is NaN.
double highest(const double* x, int64_t n, int64_t step) {
  double best = x[0];
  for (int64_t i = 1; i < n; ++i) {
    const double value = x[i * step];
    if (value > best || std::isnan(value)) best = value;
  }
  return best;
}

double sum_of_exps(const double* x, int64_t n, int64_t step, double max) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += std::exp(x[i * step] - max);
  return total;
}

void softmax_line(const double* x, double* y, int64_t n, int64_t step, bool log) {
  const double max = highest(x, n, step), sum = sum_of_exps(x, n, step, max);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = x[i * step] - max;
    y[i * step] = log ? shifted - log_sum : std::exp(shifted) / sum;
  }
}

void softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n, int64_t step,
                       bool log) {
  double along = 0;
  for (int64_t i = 0; i < n; ++i) along += log ? dy[i * step] : dy[i * step] * y[i * step];
  for (int64_t i = 0; i < n; ++i) {
    const double g = dy[i * step], p = y[i * step];
    dx[i * step] = log ? g - std::exp(p) * along : p * (g - along);
  }
}

}  // namespace

// ---- softmax

void WideLoops::max_and_sum(const double* x, int64_t n, double* max, double* sum) {
  *max = highest(x, n, 1);
  *sum = sum_of_exps(x, n, 1, *max);
}

void WideLoops::softmax_row(const double* x, double* y, int64_t n) {
  softmax_line(x, y, n, 1, false);
}

void WideLoops::log_softmax_row(const double* x, double* y, int64_t n) {
  softmax_line(x, y, n, 1, true);
}

void WideLoops::softmax_columns(const double* x, double* y, int64_t rows, int64_t stride,
                                int64_t cols, bool log) {
  for (int64_t c = 0; c < cols; ++c) softmax_line(x + c, y + c, rows, stride, log);
}

void WideLoops::softmax_grad_row(const double* dy, const double* y, double* dx, int64_t n) {
  softmax_grad_line(dy, y, dx, n, 1, false);
}

void WideLoops::log_softmax_grad_row(const double* dy, const double* y, double* dx, int64_t n) {
  softmax_grad_line(dy, y, dx, n, 1, true);
}

void WideLoops::softmax_grad_columns(const double* dy, const double* y, double* dx, int64_t rows,
                                     int64_t stride, int64_t cols, bool log) {
  for (int64_t c = 0; c < cols; ++c) softmax_grad_line(dy + c, y + c, dx + c, rows, stride, log);
}

void WideLoops::log_sum_exp_columns(const double* x, int64_t rows, int64_t stride, int64_t cols,
                                    double* lse) {
  for (int64_t c = 0; c < cols; ++c) {
    const double max = highest(x + c, rows, stride);
    lse[c] = max + std::log(sum_of_exps(x + c, rows, stride, max));
  }
}

void WideLoops::scaled_exp_row(const double* x, double* y, int64_t n, double lse, double scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = scale * std::exp(x[i] - lse);
}

double WideLoops::sum_of_squared_differences(const double* a, const double* b, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += (a[i] - b[i]) * (a[i] - b[i]);
  return total;
}

// ---- layer and root-mean-square normalisation

void WideLoops::layer_norm_row(const double* x, const double* scale, const double* bias, double* y,
                               int64_t n, double epsilon, double* mean, double* rstd) {
  double mu = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mu += x[i];
  mu /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mu) * (x[i] - mu);
  const double r = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  *mean = mu;
  *rstd = r;
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - mu) * r * scale[i] + (bias != nullptr ? bias[i] : 0.0);
}

void WideLoops::layer_norm_grad_row(const double* dy, const double* x, const double* scale,
                                    double* dx, int64_t n, double mean, double rstd, double* dscale,
                                    double* dbias) {
  double sum = 0, along = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double hat = (x[i] - mean) * rstd;
    sum += dy[i] * scale[i];
    along += dy[i] * scale[i] * hat;
    dscale[i] += dy[i] * hat;
    dbias[i] += dy[i];
  }
  sum /= static_cast<double>(n);
  along /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    dx[i] = rstd * (dy[i] * scale[i] - sum - (x[i] - mean) * rstd * along);
}

void WideLoops::rms_norm_row(const double* x, const double* scale, double* y, int64_t n,
                             double epsilon, double* rstd) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  *rstd = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * *rstd * scale[i];
}

void WideLoops::rms_norm_grad_row(const double* dy, const double* x, const double* scale,
                                  double* dx, int64_t n, double rstd, double* dscale) {
  double along = 0;
  for (int64_t i = 0; i < n; ++i) {
    along += dy[i] * scale[i] * x[i] * rstd;
    dscale[i] += dy[i] * x[i] * rstd;
  }
  along /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * scale[i] - x[i] * rstd * along);
}

// ---- batch normalisation

void WideLoops::moments_rows(const double* x, int64_t rows, int64_t cols, const double* shift,
                             double* s1, double* s2) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const double d = x[r * cols + c] - shift[c];
      s1[c] += d;
      s2[c] += d * d;
    }
}

void WideLoops::moments_span(const double* x, int64_t n, double shift, double* s1, double* s2) {
  for (int64_t i = 0; i < n; ++i) {
    *s1 += x[i] - shift;
    *s2 += (x[i] - shift) * (x[i] - shift);
  }
}

void WideLoops::affine_rows(const double* x, double* y, int64_t rows, int64_t cols, const double* a,
                            const double* b) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * a[c] + b[c];
}

void WideLoops::affine_span(const double* x, double* y, int64_t n, double a, double b) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
}

void WideLoops::grad_moments_rows(const double* dy, const double* x, int64_t rows, int64_t cols,
                                  const double* mean, double* s1, double* s2) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      s1[c] += dy[r * cols + c];
      s2[c] += dy[r * cols + c] * (x[r * cols + c] - mean[c]);
    }
}

void WideLoops::grad_moments_span(const double* dy, const double* x, int64_t n, double mean,
                                  double* s1, double* s2) {
  for (int64_t i = 0; i < n; ++i) {
    *s1 += dy[i];
    *s2 += dy[i] * (x[i] - mean);
  }
}

void WideLoops::affine2_rows(const double* dy, const double* x, double* dx, int64_t rows,
                             int64_t cols, const double* mean, const double* a, const double* b,
                             const double* c) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t at = r * cols + i;
      dx[at] = dy[at] * a[i] + (x[at] - mean[i]) * b[i] + c[i];
    }
}

void WideLoops::affine2_span(const double* dy, const double* x, double* dx, int64_t n, double mean,
                             double a, double b, double c) {
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * a + (x[i] - mean) * b + c;
}

// ---- pooling, sums

void WideLoops::pool_max_grad_tap(const double* dy, const uint8_t* index, uint8_t tap, int64_t n,
                                  double* dx) {
  for (int64_t i = 0; i < n; ++i) dx[i] += index[i] == tap ? dy[i] : 0.0;
}

void WideLoops::add_scaled(const double* x, double scale, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void WideLoops::add(const double* x, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

// ---- updates

void WideLoops::adamw(double* param, const double* grad, double* m, double* v, int64_t n,
                      const AdamStepOf<double>& k) {
  for (int64_t i = 0; i < n; ++i) {
    const double g = grad[i] + (k.added_decay != 0 ? k.added_decay * param[i] : 0);
    m[i] = k.beta1 * m[i] + k.one_minus_beta1 * g;
    v[i] = k.beta2 * v[i] + k.one_minus_beta2 * g * g;
    const double root = std::sqrt(v[i]) * k.inverse_root_correction + k.epsilon;
    param[i] = param[i] * k.decay - k.step_size * m[i] / root;
  }
}

void WideLoops::sgd(double* param, const double* grad, double* momentum, int64_t n,
                    const SgdStepOf<double>& k) {
  for (int64_t i = 0; i < n; ++i) {
    const double g = grad[i] + (k.weight_decay != 0 ? k.weight_decay * param[i] : 0);
    double step = g;
    if (momentum != nullptr) {
      const double b = momentum[i] = k.momentum * momentum[i] + g;
      step = k.nesterov ? g + k.momentum * b : b;
    }
    param[i] -= k.learning_rate * step;
  }
}

// ---- random

void WideLoops::dropout(const double* x, const uint32_t* words, int64_t n, float ratio,
                        double scale, double* y) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = RandomStream::to_uniform(words[i]) >= ratio ? x[i] * scale : 0.0;
}

void WideLoops::uniform(const uint32_t* words, int64_t n, double low, double high, double* y) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = low + (high - low) * static_cast<double>(RandomStream::to_uniform(words[i]));
}

}  // namespace lowtide::exec_cpu
