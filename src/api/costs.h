// Cost stores as lowtide uses them: whose times they are, and how files of them are read and grow.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <string>

#include "base/result.h"
#include "cost/store.h"

namespace lowtide {

// This machine with this library's CPU kernels on so many threads.
cost::DeviceIdentity cpu_identity(int threads);

// Error: kInput, naming the file: it cannot be read, is no store, or (unless any_device) is of
// another device.
Result<cost::CostStore> load_costs(const std::string& path, const cost::DeviceIdentity& here,
                                   bool any_device = false);

// Adds times to the store in a file, which is made if it is absent. Error: as load_costs and
// write_file_atomically; the file is as it was then.
Status add_costs(const std::string& path, const cost::CostStore& times);

}  // namespace lowtide
