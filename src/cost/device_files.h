// The profiles of devices/ as they were at build time. Internal to src/cost.
//
// Tests: cost_test.cc.
#pragma once

#include <span>
#include <string_view>

namespace lowtide::cost {

struct DeviceFile {
  std::string_view name;
  std::string_view text;
};

std::span<const DeviceFile> device_files();

}  // namespace lowtide::cost
