// Choosing the C++ type of a kernel's loops by the element type, for ops that take any number.
// Types that files seldom compute with, and those that C++ has no arithmetic of, are refused when
// planning.
//
// Tests: typed_elementwise_test.cc, every_type_test.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

inline constexpr std::string_view kNumbers = "f32 f64 i64 i32 i8 u64 u8";  // as entries list them

inline constexpr std::string_view kFloats = "f32 f64 f16 bf16";

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// build(T()) for the type's numbers; an error naming the op where there are none.
template <class Build>
Result<Built> build_for_number(const OpDesc& op, DType type, const Build& build) {
  switch (type) {
    case DType::kF32:
      return build(float());
    case DType::kF64:
      return build(double());
    case DType::kI64:
      return build(int64_t());
    case DType::kI32:
      return build(int32_t());
    case DType::kI8:
      return build(int8_t());
    case DType::kU64:
      return build(uint64_t());
    case DType::kU8:
      return build(uint8_t());
    default:
      return unsupported(op, "not computed in this element type");
  }
}

// build(T()) for an unsigned type of the same size: for moving elements as they are.
template <class Build>
Result<Built> build_for_size(DType type, const Build& build) {
  switch (size_bytes(type)) {
    case 8:
      return build(uint64_t());
    case 4:
      return build(uint32_t());
    case 2:
      return build(uint16_t());
    default:
      return build(uint8_t());
  }
}

}  // namespace lowtide::exec_cpu
