#include "api/costs.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/file.h"
#include "exec/cpu/cpu.h"

namespace lowtide {

cost::DeviceIdentity cpu_identity(int threads) {
  return cost::this_machine(threads, fmt::format("lowtide {} kernels with {}", LOWTIDE_VERSION,
                                                 exec_cpu::kernel_libraries()));
}

Result<cost::CostStore> load_costs(const std::string& path, const cost::DeviceIdentity& here,
                                   bool any_device) {
  LT_ASSIGN(const std::string text, read_file(path));
  LT_ASSIGN(cost::CostStore store, cost::parse_costs(text, path));
  if (!any_device) LT_RETURN_IF_ERROR(cost::check_same_device(store, here, path));
  return store;
}

Status add_costs(const std::string& path, const cost::CostStore& times) {
  std::error_code failure;
  cost::CostStore store(times.device());
  if (std::filesystem::exists(path, failure)) {
    LT_ASSIGN(store, load_costs(path, times.device()));
  }
  LT_RETURN_IF_ERROR(store.merge(times));
  return write_file_atomically(path, cost::print_costs(store));
}

}  // namespace lowtide
