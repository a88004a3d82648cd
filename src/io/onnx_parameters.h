// Which initializers of a model are parameters, which are buffers, and which are constants of its
// arithmetic.
//
// PyTorch's exporter says it (value_info metadata PARAMETER, BUFFER, CONSTANT_TENSOR). For
// initializers without it, in this order:
//
//   1. not a float tensor                                                      constant
//   2. read where an op must know it (scales of a Resize, also behind
//      arithmetic), where an op has what no training changes (weights of
//      classes, tables of a rotary embedding, scales and zero points,
//      masks), or where a recurrent network starts from it and 5 does not
//      hold or it is called after an op ("val_16"); and not as a weight        constant
//   3. of rank 1 or more, read as a weight (second or later operand of a
//      product, convolution or normalization; table of a lookup)               parameter
//   4. external, of rank 1 or more                                             parameter
//
//   Where no initializer of the file says what it is:
//
//   5. PyTorch wrote the file and the name is one of its own, a path of
//      modules: not "onnx::Mul_12" or "/Constant_output_0", which its folding
//      made, nor one number called after an op ("val_7",
//      "scalar_tensor_default"), and not a bound of a Clip or the like         parameter
//   6. rank 1 or more, added to a product with a weight                        parameter
//   7. more than one element                                                   parameter
//   8. otherwise                                                               constant
//
// So the bias of a layer with one output, and one factor that is learnt, are parameters; a root of
// d, an epsilon or the half of a written-out GELU are not.
//
// An integer or boolean buffer (position ids) is a constant. A running statistic of
// BatchNormalization is one however it came, and is never trained; nor is what PyTorch calls
// running_mean or running_var, or what its libraries call inv_freq (of rotary embeddings) or
// embed_scale, whatever reads it.
//
// Some exporters (PaddlePaddle's) write every weight as a Constant node, others write none so. A
// Constant node's tensor is an initializer here, and a parameter where a product, convolution or
// normalization reads it as a weight. Other Constant nodes (a bias in an Add, a Gather's table) are
// only where the weights are Constant nodes and no float initializer of more than one element is
// there. Where the file tells what its initializers are, no Constant node is one, nor where PyTorch
// wrote it: beside its weights it writes ones and zeros for a normalization that has none.
//
// A tensor is read as a weight also where Identity, Cast, Reshape, Transpose and the like stand
// between.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/onnx_model.h"

namespace lowtide::io {

// kBuffer: a float that a file may keep outside, and that no step changes. kMean, kVariance:
// running statistics of a BatchNormalization, which start at 0 and 1 and follow the batches.
enum class TensorRole : uint8_t { kTrained, kBuffer, kMean, kVariance, kConstant };
using TensorRoles = std::map<std::string, TensorRole, std::less<>>;

// Constant nodes that hold a tensor become initializers.
void constants_to_initializers(OnnxModel& model);

// The role of every initializer, by name. The nodes are in order.
TensorRoles tensor_roles(const OnnxModel& model);
// The initializers of more than one float that are constants only because the file, which says what
// others are, says nothing of them.
std::vector<std::string> untold_floats(const OnnxModel& model, const TensorRoles& roles);

}  // namespace lowtide::io
