// Element types of values, and the roles that memory reports speak of. Shared by the graph and the
// plan.
//
// Tests: base_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lowtide {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI64,
  kI32,
  kU8,
  kBool,
  kI8,
  kI16,
  kU16,
  kU32,
  kU64
};
inline constexpr int kDTypes = 13;

constexpr int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kU8:
    case DType::kI8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

// Of what an optimizer remembers of parameters of a float type: sums of many small steps, for which
// 16 bits are too few.
constexpr DType state_type(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

constexpr bool is_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::kBool;
}

constexpr bool is_unsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 ||
         dtype == DType::kU64;
}

// "f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool", "i8", "i16", "u16", "u32", "u64": the
// words of every text form.
std::string_view name(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);

// PyTorch's categories of device memory (torch.profiler), the words of every report.
enum class Category : uint8_t {
  kParameter,       // trained weights, and buffers such as running statistics
  kOptimizerState,  // momenta
  kGradient,        // of parameters
  kActivation,      // made by the forward pass
  kTemporary,       // made by the backward pass or the update, other than parameter gradients
  kWorkspace,       // scratch of one kernel while it runs
  kInput,           // data, labels, constants of the model
};
inline constexpr int kCategories = 7;

// "parameter", "optimizer_state", "gradient", "activation", "temporary", "workspace", "input".
std::string_view name(Category category);
std::optional<Category> parse_category(std::string_view text);

// Which part of a training step an op belongs to.
enum class Phase : uint8_t { kForward, kBackward, kUpdate };
std::string_view name(Phase phase);  // "forward", "backward", "update"
std::optional<Phase> parse_phase(std::string_view text);

}  // namespace lowtide
