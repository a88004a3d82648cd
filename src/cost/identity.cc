#include "cost/identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/file.h"

namespace lowtide::cost {
namespace {

// The value of a line "name   : value"; empty if there is none.
std::string_view field(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t colon = line.find(':');
    at = end + 1;
    if (colon == std::string_view::npos) continue;
    const std::string_view label = line.substr(0, colon);
    if (label.substr(0, label.find_last_not_of(" \t") + 1) != name) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string_view::npos ? std::string_view() : line.substr(start);
  }
  return {};
}

}  // namespace

std::string print(const DeviceIdentity& identity) {
  return fmt::format("{}, {} core{}, {} thread{}, {}", identity.processor, identity.cores,
                     identity.cores == 1 ? "" : "s", identity.threads,
                     identity.threads == 1 ? "" : "s", identity.kernels);
}

DeviceIdentity this_machine(int threads, std::string kernels) {
  DeviceIdentity identity;
  const auto text = read_file("/proc/cpuinfo");
  const std::string_view info = text ? std::string_view(*text) : std::string_view();
  const std::string_view model = field(info, "model name");
  identity.processor = model.empty() ? "unknown processor"
                                     : fmt::format("{} (family {}, model {}, stepping {})", model,
                                                   field(info, "cpu family"), field(info, "model"),
                                                   field(info, "stepping"));
  identity.cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  identity.threads = threads;
  identity.kernels = std::move(kernels);
  return identity;
}

}  // namespace lowtide::cost
