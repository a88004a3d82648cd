// A tensor by itself, as the official ONNX test cases keep their inputs and outputs in files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

// A serialized tensor. Error: kInput, naming the origin: undecodable, or a payload that does not
// fill its shape.
Result<OnnxTensor> decode_onnx_tensor(std::string_view bytes, const std::string& origin);

// The same of a file. Error: kInput, naming the path, also where it is unreadable.
Result<OnnxTensor> read_onnx_tensor(const std::string& path);

}  // namespace lowtide::io
