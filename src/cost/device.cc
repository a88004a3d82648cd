#include "cost/device.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include "base/file.h"
#include "cost/device_files.h"

namespace lowtide::cost {

DeviceProfile::DeviceProfile() = default;
DeviceProfile::DeviceProfile(const DeviceProfile&) = default;
DeviceProfile::DeviceProfile(DeviceProfile&&) noexcept = default;
DeviceProfile& DeviceProfile::operator=(const DeviceProfile&) = default;
DeviceProfile& DeviceProfile::operator=(DeviceProfile&&) noexcept = default;
DeviceProfile::~DeviceProfile() = default;

Result<DeviceProfile> find_device(const std::string& name_or_path) {
  for (const DeviceFile& file : device_files())
    if (file.name == name_or_path)
      return parse_device(file.text, fmt::format("device '{}'", file.name));
  auto text = read_file(name_or_path);
  if (!text)
    return error(ErrorCode::kUsage,
                 fmt::format("--device: '{}' is neither a readable profile file nor one of {}",
                             name_or_path, fmt::join(known_devices(), ", ")));
  return parse_device(*text, name_or_path);
}

std::vector<std::string> known_devices() {
  std::vector<std::string> names;
  for (const DeviceFile& file : device_files()) names.emplace_back(file.name);
  return names;
}

std::string_view name(CostModel model) {
  return model == CostModel::kTiles ? "tiles" : "roofline";
}

Status choose_cost_model(DeviceProfile& device, std::string_view model) {
  if (model != name(CostModel::kRoofline) && model != name(CostModel::kTiles))
    return error(ErrorCode::kUsage,
                 fmt::format("--cost-model: '{}' is not known; known are roofline, tiles", model));
  const bool is_tiles = model == name(CostModel::kTiles);
  if (is_tiles && !device.tiles)
    return error(ErrorCode::kUsage,
                 fmt::format("--cost-model tiles: the profile of device '{}' has no 'tiles' "
                             "(processors, flops_per_second, sides)",
                             device.name));
  device.cost_model = is_tiles ? CostModel::kTiles : CostModel::kRoofline;
  return {};
}

}  // namespace lowtide::cost
