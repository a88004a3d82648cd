// What all three convolution ops have in common: which operand is the data, the weights and the
// result, and the window that slides over them.
//
// Tests: kernel_test.cc.
#pragma once

#include <vector>

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

// x and dx are `data`, y and dy are `result`.
struct ConvGeometry {
  TensorDesc data, weights, result;
  std::vector<int64_t> weight_dims;  // with the group in front when there is more than one
  std::vector<int64_t> strides = {}, pads_begin = {}, pads_end = {};
  std::vector<int64_t> dilations = {};  // as oneDNN counts them: 0 between neighbouring taps
  int64_t group = 1;
};

// Error: not one to three spatial dims, or attributes that do not match them.
Result<ConvGeometry> conv_geometry(const OpDesc& op);

// Conv, ConvDataGrad and ConvWgtGrad of f64 in any plain layouts.
Result<Built> make_own_convolution(const OpDesc& op);

}  // namespace lowtide::exec_cpu
