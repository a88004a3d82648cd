#include "io/testing/onnx_tensor.h"

#include "base/file.h"
#include "io/onnx_wire.h"

namespace lowtide::io {

Result<OnnxTensor> read_onnx_tensor(const std::string& path) {
  LT_ASSIGN(const std::string bytes, read_file(path));
  return decode_onnx_tensor(bytes, path);
}

}  // namespace lowtide::io
