#include "cost/device.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include "base/file.h"
#include "cost/device_files.h"

namespace lowtide::cost {

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

}  // namespace lowtide::cost
