// Bugs of ours, for tests: passes that change what a step computes, and nothing of its shapes. The
// linker puts them in the place of rewrite::order_sums and fission::expand (ld's --wrap;
// wrong_passes_test.cmake), so that everything around them is the code that ships.
#pragma once

#include <cstdint>

namespace lowtide {

enum class WrongPass : uint8_t { kNone, kOrderSums, kExpand };
inline WrongPass wrong_pass = WrongPass::kNone;

}  // namespace lowtide
