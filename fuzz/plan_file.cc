// The plan loader and, behind it, the verifier: no input may crash either.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "plan/plan_text.h"
#include "plan/testing/sealed_plan.h"
#include "verify/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The checksum would stop nearly every input at the door, so it is made right first; the text as
  // it is goes in too.
  (void)lowtide::plan::read_plan(text, "fuzz");
  if (const auto plan = lowtide::plan::read_plan(lowtide::plan::seal_plan_text(text), "fuzz")) {
    const std::string canonical = lowtide::plan::print_plan(*plan);
    const auto again = lowtide::plan::read_plan(canonical, "again");
    LT_CHECK(again.has_value() && lowtide::plan::print_plan(*again) == canonical,
             "print and read give the plan back");
    (void)lowtide::verify::verify(*plan);
  }
  return 0;
}
