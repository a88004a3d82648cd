// A tensor in a file of its own, as the official ONNX test cases keep their inputs and outputs.
#pragma once

#include <string>

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

// Error: kInput, naming the path: unreadable, undecodable, or a payload that does not fill its
// shape.
Result<OnnxTensor> read_onnx_tensor(const std::string& path);

}  // namespace lowtide::io
