// The plan loader and, behind it, the verifier: no input may crash either.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plan/plan_text.h"
#include "verify/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto plan = lowtide::plan::read_plan(text, "fuzz")) {
    LT_CHECK(lowtide::plan::print_plan(*plan) == text,
             "an accepted plan file is the canonical one");
    (void)lowtide::verify::verify(*plan);
  }
  return 0;
}
