// The structural check of a model's nodes, and a valid order of them.
//
// Tests: onnx_branches_test.cc.
#pragma once

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

// Puts model.nodes in an order in which every name is made before it is read: the file's own order
// where that is valid (as the specification demands), the earliest possible one otherwise. Error:
// kInput: a name made twice, a name that nobody makes (with its reader), an output of the model
// that nobody makes, nodes on a cycle (named).
Status order_nodes(OnnxModel& model);

}  // namespace lowtide::io
