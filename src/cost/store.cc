#include "cost/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace lowtide::cost {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr double kMostSeconds = 1e9;

void append(std::vector<double>& runs, const std::vector<double>& more) {
  runs.insert(runs.end(), more.begin(), more.end());
  if (runs.size() > kMostRuns) runs.erase(runs.begin(), runs.end() - kMostRuns);
}

class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  tl::unexpected<Error> refuse(std::string_view what) const {
    return error(ErrorCode::kInput, fmt::format("{}: {}", origin_, what));
  }

  // A member; null if it is absent.
  static const Json& at(const Json& object, std::string_view member) {
    static const Json kNone;
    const auto found = object.is_object() ? object.find(member) : object.end();
    return found == object.end() ? kNone : *found;
  }

  Result<std::string> word(const Json& object, std::string_view member) const {
    const Json& value = at(object, member);
    if (!value.is_string()) return refuse(fmt::format("member '{}' must be a word", member));
    return value.get<std::string>();
  }

  Result<int64_t> whole(const Json& object, std::string_view member) const {
    const Json& value = at(object, member);
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
      return refuse(fmt::format("member '{}' is {}; a whole number from 1 to {} is needed", member,
                                value.dump(), std::numeric_limits<int32_t>::max()));
    return value.get<int64_t>();
  }

  Result<double> amount(const Json& value, std::string_view what, double most) const {
    if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > most)
      return refuse(
          fmt::format("{} is {}; a number from 0 to {} is needed", what, value.dump(), most));
    return value.get<double>();
  }

  Result<std::vector<double>> times(const Json& object, std::string_view member,
                                    size_t least) const {
    const Json& value = at(object, member);
    if (!value.is_array() || value.size() < least || value.size() > kMostRuns)
      return refuse(
          fmt::format("member '{}' must be a list of {} to {} times", member, least, kMostRuns));
    std::vector<double> seconds;
    for (const Json& element : value) {
      LT_ASSIGN(const double time, amount(element, member, kMostSeconds));
      seconds.push_back(time);
    }
    return seconds;
  }

  Result<DeviceIdentity> device(const Json& object) const {
    DeviceIdentity identity;
    LT_ASSIGN(identity.processor, word(object, "processor"));
    LT_ASSIGN(const int64_t cores, whole(object, "cores"));
    LT_ASSIGN(const int64_t threads, whole(object, "threads"));
    LT_ASSIGN(identity.kernels, word(object, "kernels"));
    identity.cores = static_cast<int>(cores);
    identity.threads = static_cast<int>(threads);
    return identity;
  }

  Result<MeasuredKernel> kernel(const Json& object) const {
    MeasuredKernel kernel;
    LT_ASSIGN(const std::string class_name, word(object, "class"));
    const auto kernel_class = parse_kernel_class(class_name);
    if (!kernel_class) return refuse(fmt::format("class '{}' is not known", class_name));
    kernel.kernel_class = *kernel_class;
    constexpr double kMost = std::numeric_limits<double>::max();
    LT_ASSIGN(kernel.flops, amount(at(object, "flops"), "member 'flops'", kMost));
    LT_ASSIGN(kernel.bytes, amount(at(object, "bytes"), "member 'bytes'", kMost));
    LT_ASSIGN(kernel.count, whole(object, "count"));
    LT_ASSIGN(kernel.seconds, times(object, "seconds", 1));
    return kernel;
  }

 private:
  std::string origin_;
};

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void CostStore::add(const std::string& key, const MeasuredKernel& kernel) {
  MeasuredKernel& mine = kernels_[key];
  mine.kernel_class = kernel.kernel_class;
  mine.flops = kernel.flops;
  mine.bytes = kernel.bytes;
  constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();
  mine.count = std::min(kMostCount, mine.count + std::min(kMostCount, kernel.count));
  append(mine.seconds, kernel.seconds);
}

void CostStore::add_overhead(double seconds) {
  append(overheads_, {seconds});
}

Status CostStore::merge(const CostStore& later) {
  if (later.device_ != device_)
    return error(ErrorCode::kInput, fmt::format("times of {} cannot be added to a store of {}",
                                                print(later.device_), print(device_)));
  for (const auto& [key, kernel] : later.kernels_) add(key, kernel);
  append(overheads_, later.overheads_);
  return {};
}

const MeasuredKernel* CostStore::find(std::string_view key) const {
  const auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : &found->second;
}

double CostStore::overhead_seconds() const {
  return median(overheads_);
}

Status check_same_device(const CostStore& store, const DeviceIdentity& here,
                         std::string_view origin) {
  if (store.device() == here) return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: a cost store of another device: it was measured on {}; this is {}",
                           origin, print(store.device()), print(here)));
}

Result<CostStore> parse_costs(std::string_view text, std::string_view origin) {
  const Reader reader(origin);
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object() || Reader::at(object, "format") != "lowtide-costs")
    return reader.refuse("not a cost store (JSON with \"format\": \"lowtide-costs\")");
  LT_ASSIGN(const int64_t version, reader.whole(object, "version"));
  if (version != kVersion)
    return reader.refuse(
        fmt::format("cost store of version {}; this build reads version {}", version, kVersion));
  LT_ASSIGN(DeviceIdentity device,
            Reader(fmt::format("{}: device", origin)).device(Reader::at(object, "device")));
  CostStore store(std::move(device));
  LT_ASSIGN(const std::vector<double> overheads, reader.times(object, "overhead_seconds", 0));
  for (double seconds : overheads) store.add_overhead(seconds);
  const Json& kernels = Reader::at(object, "kernels");
  if (!kernels.is_array()) return reader.refuse("member 'kernels' must be a list");
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Reader entry(fmt::format("{}: kernels[{}]", origin, i));
    LT_ASSIGN(const std::string key, entry.word(kernels[i], "op"));
    if (store.find(key) != nullptr) return entry.refuse(fmt::format("'{}' is there twice", key));
    LT_ASSIGN(const MeasuredKernel kernel, entry.kernel(kernels[i]));
    store.add(key, kernel);
  }
  return store;
}

std::string print_costs(const CostStore& store) {
  using Ordered = nlohmann::ordered_json;
  const DeviceIdentity& device = store.device();
  const Ordered identity = {{"processor", device.processor},
                            {"cores", device.cores},
                            {"threads", device.threads},
                            {"kernels", device.kernels}};
  std::string text = fmt::format(
      "{{\n\"format\": \"lowtide-costs\",\n\"version\": {},\n\"device\": {},\n"
      "\"overhead_seconds\": {},\n\"kernels\": [",
      kVersion, identity.dump(), Ordered(store.overheads()).dump());
  const char* between = "\n";
  for (const auto& [key, kernel] : store.kernels()) {
    const Ordered entry = {{"op", key},
                           {"class", name(kernel.kernel_class)},
                           {"flops", kernel.flops},
                           {"bytes", kernel.bytes},
                           {"count", kernel.count},
                           {"seconds", kernel.seconds}};
    text += between + entry.dump(-1, ' ', false, Json::error_handler_t::replace);
    between = ",\n";
  }
  return text + "\n]\n}\n";
}

}  // namespace lowtide::cost
