// Which initializers of a model are parameters, which are buffers, and which are constants of its
// arithmetic.
//
// PyTorch's exporter says it (value_info metadata PARAMETER, BUFFER, CONSTANT_TENSOR). For
// initializers without it, in this order:
//   1. not a float tensor, or rank 0                                          constant
//   2. read where an op must know it (scales of a Resize) or starts from it (the state of an LSTM),
//      and not as a weight                                                         constant
//   3. external                                                                parameter
//   4. read as a weight (second or later operand of a product, convolution or normalization; table
//   of a Gather)   parameter
//   5. no initializer of the file says what it is, more than one element       parameter
//   6. otherwise                                                               constant
// An integer or boolean buffer (position ids) is a constant.
// A running statistic of BatchNormalization is a buffer however it came.
//
// Some exporters (PaddlePaddle's) write every weight as a Constant node, others write none so. A
// Constant node's tensor is an initializer here, and a parameter where a product, convolution or
// normalization reads it as a weight. Other Constant nodes (a bias in an Add, a Gather's table) are
// only where the weights are Constant nodes and no float initializer of more than one element is
// there. Where the file tells what its initializers are, no Constant node is one.
//
// A tensor is read as a weight also where Identity, Cast, Reshape, Transpose and the like stand
// between.
#pragma once

#include <map>
#include <string>

#include "io/onnx_model.h"

namespace lowtide::io {

// kVariance: the running variance of a BatchNormalization, a buffer that starts at 1.
enum class TensorRole : uint8_t { kTrained, kBuffer, kVariance, kConstant };
using TensorRoles = std::map<std::string, TensorRole, std::less<>>;

// Constant nodes that hold a tensor become initializers.
void constants_to_initializers(OnnxModel& model);

// The role of every initializer, by name. The nodes are in order.
TensorRoles tensor_roles(const OnnxModel& model);

}  // namespace lowtide::io
