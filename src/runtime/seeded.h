// Contents drawn from a seed, for parameters of models without weights and for inputs that nobody
// gave. An element is a function of (seed, name, position): two sessions of one model agree
// whatever their order, layout or thread count.
//
//   state        = FNV1a64(name) ^ (seed * 0x9E3779B97F4A7C15)
//   z(i)         = the SplitMix64 finaliser of state + (i + 1) * 0x9E3779B97F4A7C15
//   u(i)         = (z(i) >> 11) * 2^-53, in [0, 1); i: the row-major position
//
//   fed inputs   floats 2u - 1; integers u * limit and bools 2u, rounded down
//   parameters   name ends with running_var: 1 + 0.1 u; with running_mean: 0.1 (2u - 1);
//                of rank 1: 0.1 (2u - 1), plus 1 when the name ends with "weight";
//                others: (2u - 1) * sqrt(3 / fan_in), fan_in = the product of all dims but the
//                first
//
// Tests: session_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "plan/op_desc.h"

namespace lowtide::runtime {

enum class SeedRole : uint8_t { kParameter, kInput };

// Fills `row_major` (element_count elements of type.dtype; the layout is ignored). integer_limit <
// 1 counts as 1.
void fill_seeded(std::string_view name, const plan::TensorDesc& type, uint64_t seed,
                 int64_t integer_limit, std::span<std::byte> row_major,
                 SeedRole role = SeedRole::kParameter);

}  // namespace lowtide::runtime
