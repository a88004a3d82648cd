// Kernels that reach about the same share of the machine's speed: what a calibration measures, and
// what stands in for a shape that nobody measured.
//
// Tests: cost_test.cc, store_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/op_desc.h"

namespace lowtide::cost {

enum class KernelClass : uint8_t {
  kProduct,       // dense products, all three extents above 64
  kSmallProduct,  // the smallest extent is 2 to 64: attention heads, small batches
  kThinProduct,   // an extent of one: matrix times vector
  kConvolution,
  kConvolutionDataGradient,
  kConvolutionWeightGradient,
  kNormalization,
  kSoftmax,  // and cross entropy
  kReduction,
  kPooling,
  kElementwise,
  kMovement,  // transposes, slices, concatenation, changes of layout
  kGather,
  kRandom,
  kUpdate,  // of parameters and running statistics
};
inline constexpr int kKernelClasses = 15;

KernelClass kernel_class(const plan::OpDesc& op);

// "product", "small_product", ...: the words of profiles and stores.
std::string_view name(KernelClass kernel_class);
std::optional<KernelClass> parse_kernel_class(std::string_view text);

// One line that two kernels share exactly if they do the same work in the same way: kind, types,
// dims and layouts of all operands, attributes but those that only enter a formula (reals) or
// number a random stream.
std::string op_key(const plan::OpDesc& op);
// The kind in a key.
std::string_view kind_of(std::string_view key);

}  // namespace lowtide::cost
