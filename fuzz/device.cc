// Device profiles.
#include "cost/device.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)lowtide::cost::parse_device(text, "fuzz");
  return 0;
}
