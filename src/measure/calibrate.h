// Measures this machine as a device profile: what each class of kernels reaches, what memory and
// slow tiers move, what a call costs. Kernels come from the factory that runs plans and get the
// layouts that they ask for there.
//
// Every number is a median over repetitions after a warm-up. Products and convolutions yield FLOPs
// per second (geometric mean of their cases), all others bytes per second, once on operands far
// larger than a core's caches and once on operands that fit; how a kind stands to its class is the
// profile's `efficiency`. Bytes are the op table's, so the rates are what the roofline divides by.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <string>

#include "base/result.h"
#include "cost/device.h"
#include "runtime/kernel.h"

namespace lowtide::measure {

struct CalibrationOptions {
  bool quick = false;            // smaller operands, fewer repetitions: seconds, and rougher
  std::string slow_tier_folder;  // also measure a slow tier of a file here; empty: do not
};

// Error: kInput (a kernel that the factory does not have; a slow tier that cannot be made).
Result<cost::DeviceProfile> calibrate(const runtime::KernelFactory& kernels,
                                      const cost::DeviceIdentity& device,
                                      const CalibrationOptions& options);

}  // namespace lowtide::measure
