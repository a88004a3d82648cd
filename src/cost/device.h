// A device as the planner sees it: how much memory, how fast. A profile is a JSON file
// (docs/formats.md, "Device profiles"); the ones in devices/ are compiled in and known by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide::cost {

struct DeviceProfile {
  std::string name;
  int64_t memory_bytes = 0;
  int64_t alignment_bytes = 64;        // of every buffer
  double bytes_per_second = 0;         // device memory, streaming
  double launch_seconds = 0;           // fixed cost of one op
  double matmul_flops_per_second = 0;  // dense products and convolutions, f32
  double vector_flops_per_second = 0;  // everything else, f32
  std::map<std::string, double, std::less<>>
      efficiency;  // by op kind: fraction of the roofline that is reached; 1 if absent
};

// Error: kInput, naming origin and the member that is missing, unknown, of the wrong type or not
// positive.
Result<DeviceProfile> parse_device(std::string_view text, std::string_view origin);

// A compiled-in name, or else a path to a profile file. Error: kUsage, naming the known profiles.
Result<DeviceProfile> find_device(const std::string& name_or_path);
std::vector<std::string> known_devices();

}  // namespace lowtide::cost
