// The ONNX door: any bytes give a graph or one line of complaint.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/inspect.h"
#include "io/onnx_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)lowtide::io::inspect_onnx_bytes(text, "", "fuzz");
  (void)lowtide::io::read_onnx_bytes(text, "", "fuzz", {});
  (void)lowtide::io::read_onnx_bytes(text, "", "fuzz",
                                     {.bindings = {{"batch", 2}, {"seq", 8}}, .training = true});
  return 0;
}
