// Loops of batch normalisation, pooling, updates and random numbers. Included only by
// simd_body.h.
//
// Tests: simd_test.cc.

// ---- batch normalisation ----

// s1[c] += sum (x - shift), s2[c] += sum (x - shift)^2, 64 rows in float at a time.
void moments_rows(const float* x, int64_t rows, int64_t cols, const float* shift, double* s1,
                  double* s2) {
  float a[kColumns], b[kColumns];
  for (int64_t c0 = 0; c0 < cols; c0 += kColumns) {
    const int64_t width = smaller(kColumns, cols - c0);
    const float* k = shift + c0;
    for (int64_t r0 = 0; r0 < rows; r0 += 64) {
      const int64_t last = smaller(rows, r0 + 64);
      for (int64_t c = 0; c < width; ++c) a[c] = b[c] = 0.0f;
      for (int64_t r = r0; r < last; ++r) {
        const float* row = x + r * cols + c0;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          const float d = row[c] - k[c];
          a[c] += d;
          b[c] += d * d;
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        s1[c0 + c] += static_cast<double>(a[c]);
        s2[c0 + c] += static_cast<double>(b[c]);
      }
    }
  }
}

void moments_span(const float* x, int64_t n, float shift, double* s1, double* s2) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    float a = 0.0f, b = 0.0f;
#pragma omp simd reduction(+ : a, b)
    for (int64_t j = 0; j < m; ++j) {
      const float d = x[i + j] - shift;
      a += d;
      b += d * d;
    }
    *s1 += static_cast<double>(a);
    *s2 += static_cast<double>(b);
  }
}

void affine_rows(const float* x, float* y, int64_t rows, int64_t cols, const float* a,
                 const float* b) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * a[c] + b[c];
  }
}

void affine_span(const float* x, float* y, int64_t n, float a, float b) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
}

void grad_moments_rows(const float* dy, const float* x, int64_t rows, int64_t cols,
                       const float* mean, double* s1, double* s2) {
  float a[kColumns], b[kColumns];
  for (int64_t c0 = 0; c0 < cols; c0 += kColumns) {
    const int64_t width = smaller(kColumns, cols - c0);
    const float* mu = mean + c0;
    for (int64_t r0 = 0; r0 < rows; r0 += 64) {
      const int64_t last = smaller(rows, r0 + 64);
      for (int64_t c = 0; c < width; ++c) a[c] = b[c] = 0.0f;
      for (int64_t r = r0; r < last; ++r) {
        const float* g = dy + r * cols + c0;
        const float* row = x + r * cols + c0;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          a[c] += g[c];
          b[c] += g[c] * (row[c] - mu[c]);
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        s1[c0 + c] += static_cast<double>(a[c]);
        s2[c0 + c] += static_cast<double>(b[c]);
      }
    }
  }
}

void grad_moments_span(const float* dy, const float* x, int64_t n, float mean, double* s1,
                       double* s2) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = smaller(kBlock, n - i);
    float a = 0.0f, b = 0.0f;
#pragma omp simd reduction(+ : a, b)
    for (int64_t j = 0; j < m; ++j) {
      a += dy[i + j];
      b += dy[i + j] * (x[i + j] - mean);
    }
    *s1 += static_cast<double>(a);
    *s2 += static_cast<double>(b);
  }
}

void affine2_rows(const float* dy, const float* x, float* dx, int64_t rows, int64_t cols,
                  const float* mean, const float* a, const float* b, const float* c) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* g = dy + r * cols;
    const float* in = x + r * cols;
    float* out = dx + r * cols;
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i) out[i] = g[i] * a[i] + (in[i] - mean[i]) * b[i] + c[i];
  }
}

void affine2_span(const float* dy, const float* x, float* dx, int64_t n, float mean, float a,
                  float b, float c) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * a + (x[i] - mean) * b + c;
}

// ---- pooling ----

// The first maximum stays; a NaN wins over all numbers and the first NaN stays.
void pool_max_tap(const float* x, int64_t n, uint8_t tap, float* best, uint8_t* index) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const bool wins = x[i] > best[i] || (x[i] != x[i] && best[i] == best[i]);
    best[i] = wins ? x[i] : best[i];
    index[i] = wins ? tap : index[i];
  }
}

void pool_max_grad_tap(const float* dy, const uint8_t* index, uint8_t tap, int64_t n, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] += index[i] == tap ? dy[i] : 0.0f;
}

void add_scaled(const float* x, float scale, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void add(const float* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

// Pairs of rows at a time: one pass over y for two rows read.
void weighted_sum(const float* x, const int64_t* offsets, const float* weights, int64_t taps,
                  int64_t n, float* y) {
  const float *a = x + offsets[0], *b = taps > 1 ? x + offsets[1] : a;
  const float u = weights[0], v = taps > 1 ? weights[1] : 0.0f;
  if (taps == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = u * a[i];
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = u * a[i] + v * b[i];
  int64_t t = 2;
  for (; t + 1 < taps; t += 2) {
    const float *c = x + offsets[t], *d = x + offsets[t + 1];
    const float r = weights[t], s = weights[t + 1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += r * c[i] + s * d[i];
  }
  if (t < taps) add_scaled(x + offsets[t], weights[t], n, y);
}

// ---- updates ----

void adamw(float* param, const float* grad, float* m, float* v, int64_t n, const AdamStep& s) {
  const AdamStep k = s;
  const bool adds = k.added_decay != 0.0f;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] + (adds ? k.added_decay * param[i] : 0.0f);
    const float first = k.beta1 * m[i] + k.one_minus_beta1 * g;
    const float second = k.beta2 * v[i] + k.one_minus_beta2 * g * g;
    m[i] = first;
    v[i] = second;
    const float root = __builtin_sqrtf(second) * k.inverse_root_correction + k.epsilon;
    param[i] = param[i] * k.decay - k.step_size * first / root;
  }
}

// Without weight decay an infinite parameter (a mask) is not multiplied by it: 0 times infinity is
// NaN.
void sgd(float* param, const float* grad, float* momentum, int64_t n, const SgdStep& s) {
  const SgdStep k = s;
  const bool decays = k.weight_decay != 0.0f;
  if (momentum == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      param[i] -= k.learning_rate * (grad[i] + (decays ? k.weight_decay * param[i] : 0.0f));
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] + (decays ? k.weight_decay * param[i] : 0.0f);
    const float b = k.momentum * momentum[i] + g;
    momentum[i] = b;
    param[i] -= k.learning_rate * (k.nesterov ? g + k.momentum * b : b);
  }
}

// ---- random ----

// Philox4x32-10 on kLanes counters at once, in structure-of-arrays form.
void philox(uint64_t first_group, int64_t groups, const uint32_t* key, uint32_t stream,
            uint32_t step, uint32_t* words) {
  constexpr int64_t kLanes = 64;
  uint64_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int64_t g0 = 0; g0 < groups; g0 += kLanes) {
    const int64_t width = smaller(kLanes, groups - g0);
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      const uint64_t group = first_group + static_cast<uint64_t>(g0 + l);
      c0[l] = group & 0xffffffffu;
      c1[l] = group >> 32;
      c2[l] = stream;
      c3[l] = step;
    }
    uint64_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const uint64_t a = uint64_t{0xD2511F53u} * c0[l];
        const uint64_t b = uint64_t{0xCD9E8D57u} * c2[l];
        c0[l] = (b >> 32) ^ c1[l] ^ k0;
        c1[l] = b & 0xffffffffu;
        c2[l] = (a >> 32) ^ c3[l] ^ k1;
        c3[l] = a & 0xffffffffu;
      }
      k0 = (k0 + 0x9E3779B9u) & 0xffffffffu;
      k1 = (k1 + 0xBB67AE85u) & 0xffffffffu;
    }
    uint32_t* out = words + 4 * g0;
    for (int64_t l = 0; l < width; ++l) {
      out[4 * l] = static_cast<uint32_t>(c0[l]);
      out[4 * l + 1] = static_cast<uint32_t>(c1[l]);
      out[4 * l + 2] = static_cast<uint32_t>(c2[l]);
      out[4 * l + 3] = static_cast<uint32_t>(c3[l]);
    }
  }
}

LT_INLINE float uniform_of(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1.0p-24f;
}

void dropout(const float* x, const uint32_t* words, int64_t n, float ratio, float scale, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = uniform_of(words[i]) >= ratio ? x[i] * scale : 0.0f;
}

void uniform(const uint32_t* words, int64_t n, float low, float high, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = low + (high - low) * uniform_of(words[i]);
}
