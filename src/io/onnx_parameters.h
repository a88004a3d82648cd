// Which initializers of a model are parameters, which are buffers, and which are constants of its
// arithmetic.
//
// PyTorch's exporter says it (value_info metadata PARAMETER, BUFFER, CONSTANT_TENSOR). For
// initializers without it, in this order:
//   1. not a float tensor, or rank 0                                          constant
//   2. external                                                                parameter
//   3. read as a weight (second or later operand of a product, convolution or normalization; table
//   of a Gather)   parameter
//   4. no initializer of the file says what it is, more than one element       parameter
//   5. otherwise                                                               constant
// An integer or boolean buffer (position ids) is a constant.
// A running statistic of BatchNormalization is a buffer however it came.
#pragma once

#include <map>
#include <string>

#include "io/onnx_model.h"

namespace lowtide::io {

// kVariance: the running variance of a BatchNormalization, a buffer that starts at 1.
enum class TensorRole : uint8_t { kTrained, kBuffer, kVariance, kConstant };
using TensorRoles = std::map<std::string, TensorRole, std::less<>>;

// The role of every initializer, by name.
TensorRoles tensor_roles(const OnnxModel& model);

}  // namespace lowtide::io
