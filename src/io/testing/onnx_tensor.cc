#include "io/testing/onnx_tensor.h"

#include <fmt/format.h>

#include "base/file.h"
#include "io/onnx_wire.h"

namespace lowtide::io {
namespace {

// Numbers of fields in ONNX's schema.
constexpr int kIrVersion = 1, kGraph = 7, kInitializer = 5;

// Protocol buffers: seven bits in a byte, the last without the highest bit.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number > 127; number >>= 7) bytes += static_cast<char>(128 | (number & 127));
  return bytes + static_cast<char>(number);
}
std::string number_field(int field, uint64_t number) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(number);
}
std::string message_field(int field, std::string_view message) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(message.size()) +
         std::string(message);
}

}  // namespace

// Through the door that models take: as the one initializer of a model that has nothing else.
Result<OnnxTensor> decode_onnx_tensor(std::string_view bytes, const std::string& origin) {
  const std::string model = number_field(kIrVersion, kMinIrVersion) +
                            message_field(kGraph, message_field(kInitializer, bytes));
  LT_ASSIGN(OnnxModel decoded, decode_onnx_model(model, origin, ""));
  if (decoded.initializers.size() != 1)
    return error(ErrorCode::kInput,
                 fmt::format("{}: {} tensors, one is wanted", origin, decoded.initializers.size()));
  return std::move(decoded.initializers.front());
}

Result<OnnxTensor> read_onnx_tensor(const std::string& path) {
  LT_ASSIGN(const std::string bytes, read_file(path));
  return decode_onnx_tensor(bytes, path);
}

}  // namespace lowtide::io
