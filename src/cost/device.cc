#include "cost/device.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cost/device_files.h"

namespace lowtide::cost {
namespace {

using Json = nlohmann::json;

Result<double> positive(const Json& object, std::string_view member, std::string_view origin) {
  const auto found = object.find(member);
  if (found == object.end())
    return error(ErrorCode::kInput, fmt::format("{}: member '{}' is missing", origin, member));
  if (!found->is_number() || !(found->get<double>() > 0))
    return error(ErrorCode::kInput,
                 fmt::format("{}: member '{}' is {}; a positive number is needed", origin, member,
                             found->dump()));
  return found->get<double>();
}

Status read_efficiency(const Json& object, std::string_view origin, DeviceProfile& profile) {
  const auto found = object.find("efficiency");
  if (found == object.end()) return {};
  if (!found->is_object())
    return error(ErrorCode::kInput,
                 fmt::format("{}: member 'efficiency' is not an object", origin));
  for (const auto& [kind, value] : found->items()) {
    LT_ASSIGN(profile.efficiency[kind], positive(*found, kind, origin));
  }
  return {};
}

}  // namespace

Result<DeviceProfile> parse_device(std::string_view text, std::string_view origin) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object())
    return error(ErrorCode::kInput, fmt::format("{}: not a JSON object", origin));
  static constexpr std::array<std::string_view, 9> kMembers = {"name",
                                                               "source",
                                                               "memory_bytes",
                                                               "alignment_bytes",
                                                               "bytes_per_second",
                                                               "launch_seconds",
                                                               "matmul_flops_per_second",
                                                               "vector_flops_per_second",
                                                               "efficiency"};
  for (const auto& item : object.items())
    if (std::find(kMembers.begin(), kMembers.end(), item.key()) == kMembers.end())
      return error(ErrorCode::kInput, fmt::format("{}: unknown member '{}'; known are {}", origin,
                                                  item.key(), fmt::join(kMembers, ", ")));
  DeviceProfile profile;
  const auto name = object.find("name");
  if (name == object.end() || !name->is_string())
    return error(ErrorCode::kInput, fmt::format("{}: member 'name' must be a word", origin));
  profile.name = name->get<std::string>();
  LT_ASSIGN(const double memory, positive(object, "memory_bytes", origin));
  LT_ASSIGN(const double alignment, positive(object, "alignment_bytes", origin));
  if (memory > 4e18 || alignment > 1 << 24 ||
      alignment != static_cast<double>(static_cast<int64_t>(alignment)))
    return error(ErrorCode::kInput,
                 fmt::format("{}: memory_bytes {} or alignment_bytes {} is out of range", origin,
                             memory, alignment));
  profile.memory_bytes = static_cast<int64_t>(memory);
  profile.alignment_bytes = static_cast<int64_t>(alignment);
  LT_ASSIGN(profile.bytes_per_second, positive(object, "bytes_per_second", origin));
  LT_ASSIGN(profile.launch_seconds, positive(object, "launch_seconds", origin));
  LT_ASSIGN(profile.matmul_flops_per_second, positive(object, "matmul_flops_per_second", origin));
  LT_ASSIGN(profile.vector_flops_per_second, positive(object, "vector_flops_per_second", origin));
  LT_RETURN_IF_ERROR(read_efficiency(object, origin, profile));
  return profile;
}

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
