// What a value holds before the first step, and how row-major bytes get into and out of a value of
// another layout.
//
// Tests: session_test.cc.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "plan/plan.h"

namespace lowtide::runtime {

// Copies between row-major order and the order of type's layout. Error: kInput for a blocked
// layout, naming the value.
Status store_row_major(const plan::PlanValue& value, std::span<const std::byte> row_major,
                       std::byte* memory);
Status load_row_major(const plan::PlanValue& value, const std::byte* memory,
                      std::span<std::byte> row_major);

struct InitialOptions {
  uint64_t seed = 0;
  std::string model_folder;
};

// Writes the initial contents of a value without producer: seeded, zero, inline or from a file. Fed
// values are left alone. Error: kInput (bytes of the wrong length; a file that is absent, too short
// or outside the model's folder).
Status store_initial(const plan::PlanValue& value, const InitialOptions& options,
                     std::byte* memory);

}  // namespace lowtide::runtime
