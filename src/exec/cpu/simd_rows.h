// Row and column loops of softmax, losses, sums, normalisation and pooling. Included only by
// simd_body.h.
//
// Sums over long rows are taken in float over blocks of kBlock elements, which lie in the first
// cache, and the blocks in double, so that the error does not grow with the row.
//
// Tests: simd_test.cc.

constexpr int64_t kBlock = 1024;

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

inline float block_max(const float* x, int64_t n) {
  float best = x[0];
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

inline float block_sum(const float* x, int64_t n) {
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i) total += x[i];
  return total;
}

double row_sum(const float* x, int64_t n) {
  double total = 0.0;
  for (int64_t i = 0; i < n; i += kBlock) total += block_sum(x + i, smaller(kBlock, n - i));
  return total;
}

float row_max(const float* x, int64_t n) {
  // NaN is kept: a sum of zeros times the elements is NaN exactly if one of them is NaN or
  // infinite.
  float best = block_max(x, n);
  int64_t nans = 0;
#pragma omp simd reduction(+ : nans)
  for (int64_t i = 0; i < n; ++i) nans += x[i] != x[i] ? 1 : 0;
  return nans > 0 ? __builtin_nanf("") : best;
}

double sum_of_squared_differences(const float* a, const float* b, int64_t n) {
  double total = 0.0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    float part = 0.0f;
#pragma omp simd reduction(+ : part)
    for (int64_t j = 0; j < m; ++j) part += (a[i + j] - b[i + j]) * (a[i + j] - b[i + j]);
    total += part;
  }
  return total;
}

// acc[c] += sum over rows, 64 rows at a time in a buffer of columns, so that long sums stay
// accurate.
void sum_rows(const float* x, int64_t rows, int64_t stride, int64_t cols, float* acc) {
  float part[kColumns];
  for (int64_t c0 = 0; c0 < cols; c0 += kColumns) {
    const int64_t width = smaller(kColumns, cols - c0);
    for (int64_t r0 = 0; r0 < rows; r0 += 64) {
      const int64_t last = smaller(rows, r0 + 64);
      for (int64_t c = 0; c < width; ++c) part[c] = 0.0f;
      for (int64_t r = r0; r < last; ++r) {
        const float* row = x + r * stride + c0;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) part[c] += row[c];
      }
      for (int64_t c = 0; c < width; ++c) acc[c0 + c] += part[c];
    }
  }
}

void max_rows(const float* x, int64_t rows, int64_t stride, int64_t cols, float* acc) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c)
      acc[c] = row[c] > acc[c] || row[c] != row[c] ? row[c] : acc[c];
  }
}

// ---- softmax ----

inline float exp_sum(const float* x, int64_t n, float max) {
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i) total += vexp(x[i] - max);
  return total;
}

// One pass over memory: each block's maximum, then its sum of exponentials, the running sum
// rescaled when the maximum grows.
void max_and_sum(const float* x, int64_t n, float* max, float* sum) {
  float best = -__builtin_inff();
  double total = 0.0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    const float high = block_max(x + i, m);
    if (high > best || high != high) {
      total *= static_cast<double>(vexp(best - high));
      best = high;
    }
    // A block of -inf under a maximum of -inf adds nothing; exp(-inf - -inf) would be NaN.
    if (best != -__builtin_inff()) total += static_cast<double>(exp_sum(x + i, m, best));
  }
  // Of nothing but -inf there is no share.
  if (best == -__builtin_inff()) total = __builtin_nan("");
  *max = best;
  *sum = static_cast<float>(total);
}

void softmax_row(const float* x, float* y, int64_t n) {
  float max = 0.0f, sum = 0.0f;
  if (n <= 4096) {
    max = block_max(x, n);
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) {
      const float e = vexp(x[i] - max);
      y[i] = e;
      total += e;
    }
    const float scale = 1.0f / total;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
    return;
  }
  max_and_sum(x, n, &max, &sum);
  const float scale = 1.0f / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = vexp(x[i] - max) * scale;
}

void log_softmax_row(const float* x, float* y, int64_t n) {
  float max = 0.0f, sum = 0.0f;
  max_and_sum(x, n, &max, &sum);
  const float log_sum = __builtin_logf(sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log_sum;
}

inline void column_max_and_sum(const float* x, int64_t rows, int64_t stride, int64_t cols,
                               float* max, float* sum) {
#pragma omp simd
  for (int64_t c = 0; c < cols; ++c) {
    max[c] = x[c];
    sum[c] = 0.0f;
  }
  for (int64_t r = 1; r < rows; ++r) {
    const float* row = x + r * stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) max[c] = row[c] > max[c] ? row[c] : max[c];
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) sum[c] += vexp(row[c] - max[c]);
  }
}

void softmax_columns(const float* x, float* y, int64_t rows, int64_t stride, int64_t cols,
                     bool log) {
  float max[kColumns], sum[kColumns];
  column_max_and_sum(x, rows, stride, cols, max, sum);
  for (int64_t c = 0; c < cols; ++c) sum[c] = log ? __builtin_logf(sum[c]) : 1.0f / sum[c];
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
    float* out = y + r * stride;
    if (log) {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) out[c] = (row[c] - max[c]) - sum[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) out[c] = vexp(row[c] - max[c]) * sum[c];
    }
  }
}

void softmax_grad_row(const float* dy, const float* y, float* dx, int64_t n) {
  double dot = 0.0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    float part = 0.0f;
#pragma omp simd reduction(+ : part)
    for (int64_t j = 0; j < m; ++j) part += dy[i + j] * y[i + j];
    dot += part;
  }
  const float mean = static_cast<float>(dot);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - mean);
}

void log_softmax_grad_row(const float* dy, const float* y, float* dx, int64_t n) {
  const float total = static_cast<float>(row_sum(dy, n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - vexp(y[i]) * total;
}

void softmax_grad_columns(const float* dy, const float* y, float* dx, int64_t rows, int64_t stride,
                          int64_t cols, bool log) {
  float dot[kColumns];
  for (int64_t c = 0; c < cols; ++c) dot[c] = 0.0f;
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = dy + r * stride;
    const float* b = y + r * stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) dot[c] += log ? a[c] : a[c] * b[c];
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = dy + r * stride;
    const float* b = y + r * stride;
    float* out = dx + r * stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c)
      out[c] = log ? a[c] - vexp(b[c]) * dot[c] : b[c] * (a[c] - dot[c]);
  }
}

void log_sum_exp_columns(const float* x, int64_t rows, int64_t stride, int64_t cols, float* lse) {
  float max[kColumns], sum[kColumns];
  column_max_and_sum(x, rows, stride, cols, max, sum);
  for (int64_t c = 0; c < cols; ++c) lse[c] = max[c] + __builtin_logf(sum[c]);
}

void scaled_exp_row(const float* x, float* y, int64_t n, float lse, float scale) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = scale * vexp(x[i] - lse);
}
