// Sparse matrices along one axis: which elements of a line make each element of another line, and
// with which weights. Resizing is separable and linear, so each resized axis of a tensor is one
// such matrix, whatever the interpolation; padding with elements of the tensor itself is one with
// single weights of 1. The gradient of either is the transposed matrix.
//
// Rules of ONNX's Resize (opset 19), with ONNX Runtime's arithmetic where a rounding decides: the
// place of a nearest element and whether a place lies outside are computed in float, as it does;
// weights are computed in double.
//
// The one meaning of these rules for the reference executor, the CPU kernels and the op table;
// judged by the official cases and by ONNX Runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide {

struct AxisTaps {
  // Position p is the sum of weight[t] * line[index[t]] for t in [begin[p], begin[p + 1]). No taps:
  // the position lies outside and has a value of its own (of a transposed matrix: 0).
  std::vector<int64_t> begin = {0};
  std::vector<int64_t> index;
  std::vector<double> weight;

  int64_t positions() const { return static_cast<int64_t>(begin.size()) - 1; }
  // Adds a tap to the last position, which is open until the next close().
  void add(int64_t from, double by);
  void close() { begin.push_back(static_cast<int64_t>(index.size())); }
};

// The matrix of the gradient: positions are the `extent` elements of the line.
AxisTaps transposed(const AxisTaps& taps, int64_t extent);

// How a tensor is resized. Words are those of ONNX.
struct Resample {
  std::string_view mode;  // nearest, linear, cubic
  // half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric,
  // tf_crop_and_resize, tf_half_pixel_for_nn
  std::string_view coordinates;
  // round_prefer_floor, round_prefer_ceil, floor, ceil; simple: as before opset 11 (up when
  // shrinking, else towards zero)
  std::string_view nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false;  // taps outside of the line count nothing, the others add up to 1
  bool antialias = false;        // a filter as wide as the step when shrinking
};
// Error: kInput: a word that is none of the above, antialias of nearest.
Status check(const Resample& how);

struct ResampledLine {
  int64_t from = 1, to = 1;           // extents
  double scale = 0;                   // as a file says it; 0: to / from
  double roi_begin = 0, roi_end = 1;  // of tf_crop_and_resize
};
AxisTaps resample_taps(const Resample& how, const ResampledLine& line);

// Padding with the line's own elements: `reflect` (without repeating the edge), `edge`, `wrap`.
// Negative pads cut first; what is left is then repeated and must not be empty unless the result
// is.
AxisTaps pad_taps(std::string_view mode, int64_t from, int64_t begin, int64_t end);

// "1.5,2" as numbers. Error: kInput: anything else.
Result<std::vector<double>> parse_reals(std::string_view text);
std::string print_reals(std::span<const double> numbers);

}  // namespace lowtide
