// Transposes of elements of 4 bytes, in registers. Included only by simd_body.h.
//
// Tests: simd_test.cc.

typedef uint32_t Eight __attribute__((vector_size(32)));

// Three rounds of exchanges: between neighbouring rows, between pairs, between halves.
[[gnu::always_inline]] inline void transpose_8x8(const uint32_t* x, int64_t x_stride, Eight* y) {
  Eight a[8], b[8];
  for (int64_t r = 0; r < 8; ++r) __builtin_memcpy(&a[r], x + r * x_stride, sizeof(Eight));
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int half = 0; half < 8; half += 4)
    for (int i = 0; i < 2; ++i) {
      const Eight low = b[half + i], high = b[half + i + 2];
      a[half + 2 * i] = __builtin_shufflevector(low, high, 0, 1, 8, 9, 4, 5, 12, 13);
      a[half + 2 * i + 1] = __builtin_shufflevector(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

inline void transpose_rest(const uint32_t* x, int64_t x_stride, uint32_t* y, int64_t y_stride,
                           int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) y[c * y_stride + r] = x[r * x_stride + c];
}

// Blocks of 16 rows and 8 columns, in registers: whole cache lines are written.
void transpose_tile(const uint32_t* x, int64_t x_stride, uint32_t* y, int64_t y_stride,
                    int64_t rows, int64_t cols) {
  const int64_t whole_rows = rows / 16 * 16, whole_cols = cols / 8 * 8;
  for (int64_t r = 0; r < whole_rows; r += 16) {
    for (int64_t c = 0; c < whole_cols; c += 8) {
      Eight upper[8], lower[8];
      transpose_8x8(x + r * x_stride + c, x_stride, upper);
      transpose_8x8(x + (r + 8) * x_stride + c, x_stride, lower);
      for (int64_t i = 0; i < 8; ++i) {
        __builtin_memcpy(y + (c + i) * y_stride + r, &upper[i], sizeof(Eight));
        __builtin_memcpy(y + (c + i) * y_stride + r + 8, &lower[i], sizeof(Eight));
      }
    }
    transpose_rest(x + r * x_stride + whole_cols, x_stride, y + whole_cols * y_stride + r, y_stride,
                   16, cols - whole_cols);
  }
  transpose_rest(x + whole_rows * x_stride, x_stride, y + whole_rows, y_stride, rows - whole_rows,
                 cols);
}
