// Captured steps, and what is known of the bounds on them.
#pragma once

#include <cstdint>

namespace lowtide::remat {

// A captured step, and the extra time that is proven for it within a budget.
struct KnownBound {
  const char* name;
  int64_t budget_mib;
  double percent;
};

}  // namespace lowtide::remat
