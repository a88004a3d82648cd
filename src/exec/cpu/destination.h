// Kernels that write a slice of a larger value (ops/destinations.h), made of kernels that write a
// strided result: the slice is a view of the whole, and its first element is where it begins there.
// Where the rest lies elsewhere all of it is copied first. Tests: destination_test.cc.
#pragma once

#include <optional>

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

// What the builder of the slice alone is asked for.
struct SlicePart {
  OpDesc op;
  int64_t offset_bytes = 0, whole_bytes = 0;
  std::optional<size_t> rest;  // the operand
};

// Error: kInput, when the attribute `into` is no slice of the output.
Result<SlicePart> slice_part(const Entry& entry, const OpDesc& op);

Built into_slice(const SlicePart& part, Built own);

}  // namespace lowtide::exec_cpu
