// A device as the planner sees it: how much memory, how fast. A profile is a JSON file
// (docs/formats.md, "Device profiles"); the ones in devices/ are compiled in and known by name;
// `lowtide calibrate` measures one.
//
// Tests: cost_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost/identity.h"
#include "cost/kernel_class.h"

namespace lowtide::cost {

// What a class of kernels reaches; 0: what the device has for all.
struct ClassRate {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double cached_bytes_per_second = 0;  // where all operands fit into cache_bytes
  bool operator==(const ClassRate&) const = default;
};

// Copying a block of this size, once.
struct MemoryRate {
  std::string operation;  // "copy", "read", "write"
  int64_t bytes = 0;
  double bytes_per_second = 0;
  bool operator==(const MemoryRate&) const = default;
};

// What dense products run on, for the tile model (tiles.h): how many processors, and which output
// tiles.
struct TileRates {
  int64_t processors = 0;
  double flops_per_second = 0;  // all processors busy with whole tiles
  std::vector<int64_t> sides;   // that a tile may have
  bool operator==(const TileRates&) const = default;
};

// The model of a kernel that nobody measured: tiles.h for products and convolutions and the
// roofline for all else, or the roofline for all.
enum class CostModel : uint8_t { kRoofline, kTiles };

// Somewhere slower to put tensors: host memory outside the arena, a file.
struct SlowTierRate {
  std::string name;  // "host", "file"
  double out_bytes_per_second = 0;
  double in_bytes_per_second = 0;
  double latency_seconds = 0;
  double compute_seconds_per_byte = 0;  // where the processor that computes also copies
  bool operator==(const SlowTierRate&) const = default;
};

struct DeviceProfile {
  // These six are in the .cc: else each file that copies one has their code again.
  DeviceProfile();
  DeviceProfile(const DeviceProfile&);
  DeviceProfile(DeviceProfile&&) noexcept;
  DeviceProfile& operator=(const DeviceProfile&);
  DeviceProfile& operator=(DeviceProfile&&) noexcept;
  ~DeviceProfile();
  static constexpr int kVersion = 2;  // version 1 had neither rates by class nor slow tiers
  std::string name;
  std::string source;   // where the numbers come from
  std::string kernels;  // "cpu": this library's own run on it; empty: a profile is all there is
  int64_t memory_bytes = 0;
  int64_t alignment_bytes = 64;        // of every buffer
  int64_t cache_bytes = 0;             // up to which class rates call operands cached
  double bytes_per_second = 0;         // device memory, streaming
  double launch_seconds = 0;           // fixed cost of one op
  double matmul_flops_per_second = 0;  // dense products and convolutions, f32
  double vector_flops_per_second = 0;  // everything else, f32
  // By op kind: fraction of the roofline that is reached; 1 if absent.
  std::map<std::string, double, std::less<>> efficiency;
  std::map<KernelClass, ClassRate> classes;
  std::vector<MemoryRate> memory;
  std::vector<SlowTierRate> slow_tiers;
  std::optional<TileRates> tiles;
  std::optional<DeviceIdentity> identity;  // of a measured one
  // Not in the file: whoever plans chooses (choose_cost_model).
  CostModel cost_model = CostModel::kRoofline;
};

// "roofline", "tiles".
std::string_view name(CostModel model);
// Error: kUsage, naming the model that is not known, or the device whose profile has no tiles.
Status choose_cost_model(DeviceProfile& device, std::string_view model);

// Error: kInput, naming origin and the member that is missing, unknown, of the wrong type or not
// positive.
Result<DeviceProfile> parse_device(std::string_view text, std::string_view origin);
// The inverse, as a file of kVersion.
std::string print_device(const DeviceProfile& profile);

// A compiled-in name, or else a path to a profile file. Error: kUsage, naming the known profiles.
Result<DeviceProfile> find_device(const std::string& name_or_path);
std::vector<std::string> known_devices();

}  // namespace lowtide::cost
