// What memory and slow tiers move per second, without kernels.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cost/device.h"

namespace lowtide::measure {

// Copying, reading and writing blocks of these sizes, all threads together; of a copy both
// directions count.
std::vector<cost::MemoryRate> memory_rates(const std::vector<int64_t>& sizes, int threads,
                                           double seconds_each);

// A slow tier as the runtime makes it (in memory, or a file in `folder`), through the runtime's
// copy engine. `threads`: that the kernels run on. Error: as runtime::open_slow_tier and a failed
// transfer.
Result<cost::SlowTierRate> slow_tier_rate(const std::string& name, const std::string& folder,
                                          int64_t bytes, int repetitions, int threads);

}  // namespace lowtide::measure
