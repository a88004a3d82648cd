// Bytes to OnnxModel: the only place that sees protobuf.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

// Decodes a model. `origin` names the bytes in messages; `folder` is where external data may lie
// ("" forbids it). Bytes of external tensors are not read. Limits: 2 GiB, 16 levels of nesting,
// 2^20 nodes. Error: kInput, naming origin, tensor and numbers: undecodable bytes, IR version or
// opset out of range, a payload whose size does not fit its type and shape, negative or overflowing
// dims, a path that leaves the folder. Survives any input.
Result<OnnxModel> decode_onnx_model(std::string_view bytes, const std::string& origin,
                                    const std::string& folder);

}  // namespace lowtide::io
