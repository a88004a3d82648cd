// Reading is strict: a member that is unknown, missing, of the wrong type or not positive is
// refused, naming it. Files of version 1, which have no version member, are read too.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "cost/device.h"

namespace lowtide::cost {
namespace {

using Json = nlohmann::json;
using Members = std::span<const std::string_view>;

tl::unexpected<Error> refuse(std::string_view origin, std::string_view what) {
  return error(ErrorCode::kInput, fmt::format("{}: {}", origin, what));
}

Status check_members(const Json& object, Members known, std::string_view origin) {
  if (!object.is_object()) return refuse(origin, "not a JSON object");
  for (const auto& item : object.items())
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      return refuse(origin, fmt::format("unknown member '{}'; known are {}", item.key(),
                                        fmt::join(known, ", ")));
  return {};
}

// `absent`: what a missing member means; none: it must be there.
Result<double> positive(const Json& object, std::string_view member, std::string_view origin,
                        std::optional<double> absent = {}) {
  const auto found = object.find(member);
  if (found == object.end() && absent) return *absent;
  if (found == object.end()) return refuse(origin, fmt::format("member '{}' is missing", member));
  if (!found->is_number() || !(found->get<double>() > 0))
    return refuse(origin, fmt::format("member '{}' is {}; a positive number is needed", member,
                                      found->dump()));
  return found->get<double>();
}

// A plan's links move at least a byte per second.
Result<double> speed(const Json& object, std::string_view member, std::string_view origin) {
  LT_ASSIGN(const double number, positive(object, member, origin));
  if (number < 1)
    return refuse(origin, fmt::format("member '{}' is {}; at least 1 is needed", member, number));
  return number;
}

Result<int64_t> whole(const Json& object, std::string_view member, std::string_view origin,
                      double most, std::optional<double> absent = {}) {
  LT_ASSIGN(const double number, positive(object, member, origin, absent));
  if (number > most || number != static_cast<double>(static_cast<int64_t>(number)))
    return refuse(origin, fmt::format("member '{}' is {}; a whole number of at most {} is needed",
                                      member, number, most));
  return static_cast<int64_t>(number);
}

Result<std::string> word(const Json& object, std::string_view member, std::string_view origin,
                         std::optional<std::string> absent = {}) {
  const auto found = object.find(member);
  if (found == object.end() && absent) return *absent;
  if (found == object.end() || !found->is_string())
    return refuse(origin, fmt::format("member '{}' must be a word", member));
  return found->get<std::string>();
}

// A list whose elements `read` turns into T; absent: empty.
template <class T, class Read>
Result<std::vector<T>> list(const Json& object, std::string_view member, std::string_view origin,
                            const Read& read) {
  std::vector<T> result;
  const auto found = object.find(member);
  if (found == object.end()) return result;
  if (!found->is_array()) return refuse(origin, fmt::format("member '{}' is not a list", member));
  for (size_t i = 0; i < found->size(); ++i) {
    LT_ASSIGN(T element, read((*found)[i], fmt::format("{}: {}[{}]", origin, member, i)));
    result.push_back(std::move(element));
  }
  return result;
}

Result<MemoryRate> read_memory_rate(const Json& object, const std::string& origin) {
  static constexpr std::string_view kMembers[] = {"operation", "bytes", "bytes_per_second"};
  LT_RETURN_IF_ERROR(check_members(object, kMembers, origin));
  MemoryRate rate;
  LT_ASSIGN(rate.operation, word(object, "operation", origin));
  LT_ASSIGN(rate.bytes, whole(object, "bytes", origin, 4e18));
  LT_ASSIGN(rate.bytes_per_second, positive(object, "bytes_per_second", origin));
  return rate;
}

Result<SlowTierRate> read_slow_tier(const Json& object, const std::string& origin) {
  static constexpr std::string_view kMembers[] = {"name", "out_bytes_per_second",
                                                  "in_bytes_per_second", "latency_seconds",
                                                  "compute_seconds_per_byte"};
  LT_RETURN_IF_ERROR(check_members(object, kMembers, origin));
  SlowTierRate rate;
  LT_ASSIGN(rate.name, word(object, "name", origin));
  LT_ASSIGN(rate.out_bytes_per_second, speed(object, "out_bytes_per_second", origin));
  LT_ASSIGN(rate.in_bytes_per_second, speed(object, "in_bytes_per_second", origin));
  LT_ASSIGN(rate.latency_seconds, positive(object, "latency_seconds", origin));
  if (object.contains("compute_seconds_per_byte")) {
    LT_ASSIGN(rate.compute_seconds_per_byte, positive(object, "compute_seconds_per_byte", origin));
  }
  return rate;
}

Status read_efficiency(const Json& object, std::string_view origin, DeviceProfile& profile) {
  const auto found = object.find("efficiency");
  if (found == object.end()) return {};
  if (!found->is_object()) return refuse(origin, "member 'efficiency' is not an object");
  for (const auto& [kind, value] : found->items()) {
    LT_ASSIGN(profile.efficiency[kind], positive(*found, kind, origin));
  }
  return {};
}

Status read_classes(const Json& object, std::string_view origin, DeviceProfile& profile) {
  static constexpr std::string_view kMembers[] = {"flops_per_second", "bytes_per_second",
                                                  "cached_bytes_per_second"};
  const auto found = object.find("classes");
  if (found == object.end()) return {};
  if (!found->is_object()) return refuse(origin, "member 'classes' is not an object");
  for (const auto& [key, value] : found->items()) {
    const auto kernel_class = parse_kernel_class(key);
    if (!kernel_class) return refuse(origin, fmt::format("class '{}' is not known", key));
    const std::string where = fmt::format("{}: class '{}'", origin, key);
    LT_RETURN_IF_ERROR(check_members(value, kMembers, where));
    ClassRate& rate = profile.classes[*kernel_class];
    LT_ASSIGN(rate.flops_per_second, positive(value, "flops_per_second", where, 0));
    LT_ASSIGN(rate.bytes_per_second, positive(value, "bytes_per_second", where, 0));
    LT_ASSIGN(rate.cached_bytes_per_second, positive(value, "cached_bytes_per_second", where, 0));
  }
  return {};
}

Status read_tiles(const Json& object, std::string_view origin, DeviceProfile& profile) {
  static constexpr std::string_view kMembers[] = {"processors", "flops_per_second", "sides"};
  const auto found = object.find("tiles");
  if (found == object.end()) return {};
  const std::string where = fmt::format("{}: tiles", origin);
  LT_RETURN_IF_ERROR(check_members(*found, kMembers, where));
  TileRates& tiles = profile.tiles.emplace();
  LT_ASSIGN(tiles.processors, whole(*found, "processors", where, 1e6));
  LT_ASSIGN(tiles.flops_per_second, positive(*found, "flops_per_second", where));
  LT_ASSIGN(tiles.sides,
            list<int64_t>(*found, "sides", where, [](const Json& side, const std::string& at) {
              return whole(Json{{"side", side}}, "side", at, 1e6);
            }));
  if (tiles.sides.empty())
    return refuse(where,
                  "member 'sides' is empty or missing; it lists the sides of tiles, as in "
                  "[64, 128]");
  return {};
}

Status read_identity(const Json& object, std::string_view origin, DeviceProfile& profile) {
  static constexpr std::string_view kMembers[] = {"processor", "cores", "threads", "kernels"};
  const auto found = object.find("identity");
  if (found == object.end()) return {};
  const std::string where = fmt::format("{}: identity", origin);
  LT_RETURN_IF_ERROR(check_members(*found, kMembers, where));
  DeviceIdentity& identity = profile.identity.emplace();
  LT_ASSIGN(identity.processor, word(*found, "processor", where));
  LT_ASSIGN(identity.kernels, word(*found, "kernels", where));
  LT_ASSIGN(const int64_t cores, whole(*found, "cores", where, 1e6));
  LT_ASSIGN(const int64_t threads, whole(*found, "threads", where, 1e6));
  identity.cores = static_cast<int>(cores);
  identity.threads = static_cast<int>(threads);
  return {};
}

Status check_head(const Json& object, std::string_view origin) {
  static constexpr std::string_view kMembers[] = {"version",
                                                  "name",
                                                  "source",
                                                  "kernels",
                                                  "memory_bytes",
                                                  "alignment_bytes",
                                                  "cache_bytes",
                                                  "launch_seconds",
                                                  "matmul_flops_per_second",
                                                  "bytes_per_second",
                                                  "efficiency",
                                                  "vector_flops_per_second",
                                                  "classes",
                                                  "memory",
                                                  "slow_tiers",
                                                  "tiles",
                                                  "identity"};
  LT_RETURN_IF_ERROR(check_members(object, kMembers, origin));
  LT_ASSIGN(const int64_t version, whole(object, "version", origin, 1e6, 1));
  if (version > DeviceProfile::kVersion)
    return refuse(origin, fmt::format("version {} is not known; this build reads up to {}", version,
                                      DeviceProfile::kVersion));
  LT_ASSIGN(const std::string kernels, word(object, "kernels", origin, ""));
  if (!kernels.empty() && kernels != "cpu")
    return refuse(origin, fmt::format("kernels '{}' are not known; known are cpu", kernels));
  return {};
}

}  // namespace

Result<DeviceProfile> parse_device(std::string_view text, std::string_view origin) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return refuse(origin, "not a JSON object");
  LT_RETURN_IF_ERROR(check_head(object, origin));
  DeviceProfile profile;
  LT_ASSIGN(profile.name, word(object, "name", origin));
  LT_ASSIGN(profile.source, word(object, "source", origin, ""));
  LT_ASSIGN(profile.kernels, word(object, "kernels", origin, ""));
  LT_ASSIGN(profile.memory_bytes, whole(object, "memory_bytes", origin, 4e18));
  LT_ASSIGN(profile.alignment_bytes, whole(object, "alignment_bytes", origin, 1 << 24));
  if (!std::has_single_bit(static_cast<uint64_t>(profile.alignment_bytes)))
    return refuse(origin, fmt::format("member 'alignment_bytes' is {}; a power of two is needed",
                                      profile.alignment_bytes));
  LT_ASSIGN(profile.cache_bytes, whole(object, "cache_bytes", origin, 4e18, 0));
  LT_ASSIGN(profile.bytes_per_second, positive(object, "bytes_per_second", origin));
  LT_ASSIGN(profile.launch_seconds, positive(object, "launch_seconds", origin));
  LT_ASSIGN(profile.matmul_flops_per_second, positive(object, "matmul_flops_per_second", origin));
  LT_ASSIGN(profile.vector_flops_per_second, positive(object, "vector_flops_per_second", origin));
  LT_RETURN_IF_ERROR(read_efficiency(object, origin, profile));
  LT_RETURN_IF_ERROR(read_classes(object, origin, profile));
  LT_ASSIGN(profile.memory, list<MemoryRate>(object, "memory", origin, read_memory_rate));
  LT_ASSIGN(profile.slow_tiers, list<SlowTierRate>(object, "slow_tiers", origin, read_slow_tier));
  LT_RETURN_IF_ERROR(read_tiles(object, origin, profile));
  LT_RETURN_IF_ERROR(read_identity(object, origin, profile));
  return profile;
}

std::string print_device(const DeviceProfile& profile) {
  nlohmann::ordered_json json;
  json["version"] = DeviceProfile::kVersion;
  json["name"] = profile.name;
  json["source"] = profile.source;
  if (!profile.kernels.empty()) json["kernels"] = profile.kernels;
  json["memory_bytes"] = profile.memory_bytes;
  json["alignment_bytes"] = profile.alignment_bytes;
  if (profile.cache_bytes > 0) json["cache_bytes"] = profile.cache_bytes;
  json["bytes_per_second"] = profile.bytes_per_second;
  json["launch_seconds"] = profile.launch_seconds;
  json["matmul_flops_per_second"] = profile.matmul_flops_per_second;
  json["vector_flops_per_second"] = profile.vector_flops_per_second;
  for (const auto& [kind, share] : profile.efficiency) json["efficiency"][kind] = share;
  for (const auto& [kernel_class, rate] : profile.classes) {
    auto& entry = json["classes"][std::string(name(kernel_class))];
    entry = nlohmann::ordered_json::object();
    if (rate.flops_per_second > 0) entry["flops_per_second"] = rate.flops_per_second;
    if (rate.bytes_per_second > 0) entry["bytes_per_second"] = rate.bytes_per_second;
    if (rate.cached_bytes_per_second > 0)
      entry["cached_bytes_per_second"] = rate.cached_bytes_per_second;
  }
  for (const MemoryRate& rate : profile.memory)
    json["memory"].push_back({{"operation", rate.operation},
                              {"bytes", rate.bytes},
                              {"bytes_per_second", rate.bytes_per_second}});
  for (const SlowTierRate& tier : profile.slow_tiers) {
    auto& entry = json["slow_tiers"].emplace_back(nlohmann::ordered_json::object());
    entry["name"] = tier.name;
    entry["out_bytes_per_second"] = tier.out_bytes_per_second;
    entry["in_bytes_per_second"] = tier.in_bytes_per_second;
    entry["latency_seconds"] = tier.latency_seconds;
    if (tier.compute_seconds_per_byte > 0)
      entry["compute_seconds_per_byte"] = tier.compute_seconds_per_byte;
  }
  if (profile.tiles)
    json["tiles"] = {{"processors", profile.tiles->processors},
                     {"flops_per_second", profile.tiles->flops_per_second},
                     {"sides", profile.tiles->sides}};
  if (profile.identity)
    json["identity"] = {{"processor", profile.identity->processor},
                        {"cores", profile.identity->cores},
                        {"threads", profile.identity->threads},
                        {"kernels", profile.identity->kernels}};
  return json.dump(2) + "\n";
}

}  // namespace lowtide::cost
