// What a slow tier moves per second, and what that takes from the kernels meanwhile.
//
// A copy on a CPU is made by a processor that kernels could use, and of memory that they wait for;
// so a transfer that nobody waits for still costs time. How much is measured, not derived: kernels
// run alone and beside a stream of copies, in turn, and what they lost is divided by the bytes.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "cost/device.h"

namespace lowtide::measure {

// Runs the same kernels at each call; how long they took, in seconds.
using KernelLoad = std::function<Result<double>()>;

// A tier as the runtime makes it (in memory, or a file in `folder`), through the runtime's copy
// engine. Error: as runtime::open_slow_tier, a failed transfer, or that of `load`.
Result<cost::SlowTierRate> slow_tier_rate(const std::string& name, const std::string& folder,
                                          int64_t bytes, int repetitions, const KernelLoad& load);

}  // namespace lowtide::measure
