// Exported programs: archives as such, and the program behind them where the bytes are JSON alone.
// Whatever is accepted passes the structural check.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/inspect.h"
#include "io/pt2_reader.h"
#include "io/testing/pt2_archive_maker.h"

namespace {

void read(const std::string& bytes) {
  for (const bool training : {false, true})
    if (const auto graph = lowtide::io::read_pt2_bytes(bytes, "fuzz", {.training = training}))
      LT_CHECK(lowtide::ir::check(*graph).has_value(), "what the door takes is a graph");
  (void)lowtide::io::inspect_pt2_bytes(bytes, "", "", "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The fuzzer finds no checksums of an archive, so a program is put into one.
  if (text.starts_with('{'))
    read(lowtide::io::zip_of({{"models/model.json", text}}));
  else
    read(text);
  return 0;
}
