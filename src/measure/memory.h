// What memory moves per second, without kernels.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/device.h"

namespace lowtide::measure {

// Copying, reading and writing blocks of these sizes, all threads together; of a copy both
// directions count.
std::vector<cost::MemoryRate> memory_rates(const std::vector<int64_t>& sizes, int threads,
                                           double seconds_each);

}  // namespace lowtide::measure
