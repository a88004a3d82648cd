// Row loops of layer and root-mean-square normalisation. Included only by simd_body.h.
//
// Tests: simd_test.cc.

inline float centred_square_sum(const float* x, int64_t n, float mean) {
  double total = 0.0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    float part = 0.0f;
#pragma omp simd reduction(+ : part)
    for (int64_t j = 0; j < m; ++j) part += (x[i + j] - mean) * (x[i + j] - mean);
    total += part;
  }
  return static_cast<float>(total);
}

void layer_norm_row(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                    float epsilon, float* mean, float* rstd) {
  const float count = static_cast<float>(n);
  const float mu = static_cast<float>(row_sum(x, n) / static_cast<double>(n));
  const float r = 1.0f / __builtin_sqrtf(centred_square_sum(x, n, mu) / count + epsilon);
  *mean = mu;
  *rstd = r;
  if (bias != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mu) * r * scale[i] + bias[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mu) * r * scale[i];
  }
}

// Adds into dscale and dbias; dx may be dy or x.
void layer_norm_grad_row(const float* dy, const float* x, const float* scale, float* dx, int64_t n,
                         float mean, float rstd, float* dscale, float* dbias) {
  float sum_g = 0.0f, sum_gx = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gx)
  for (int64_t i = 0; i < n; ++i) {
    const float xhat = (x[i] - mean) * rstd;
    const float g = dy[i] * scale[i];
    sum_g += g;
    sum_gx += g * xhat;
    dscale[i] += dy[i] * xhat;
    dbias[i] += dy[i];
  }
  const float inverse = 1.0f / static_cast<float>(n);
  const float mean_g = sum_g * inverse, mean_gx = sum_gx * inverse;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float xhat = (x[i] - mean) * rstd;
    dx[i] = rstd * (dy[i] * scale[i] - mean_g - xhat * mean_gx);
  }
}

void rms_norm_row(const float* x, const float* scale, float* y, int64_t n, float epsilon,
                  float* rstd) {
  const float r =
      1.0f / __builtin_sqrtf(centred_square_sum(x, n, 0.0f) / static_cast<float>(n) + epsilon);
  *rstd = r;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * r * scale[i];
}

void rms_norm_grad_row(const float* dy, const float* x, const float* scale, float* dx, int64_t n,
                       float rstd, float* dscale) {
  float sum_gx = 0.0f;
#pragma omp simd reduction(+ : sum_gx)
  for (int64_t i = 0; i < n; ++i) {
    const float xhat = x[i] * rstd;
    sum_gx += dy[i] * scale[i] * xhat;
    dscale[i] += dy[i] * xhat;
  }
  const float mean_gx = sum_gx / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * scale[i] - x[i] * rstd * mean_gx);
}
