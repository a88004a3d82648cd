#include "tools/calibrate_command.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>

#include "api/costs.h"
#include "api/running.h"
#include "base/file.h"
#include "exec/cpu/cpu.h"
#include "measure/calibrate.h"
#include "tools/flags.h"

namespace lowtide::tools {
namespace {

struct CalibrateFlags {
  measure::CalibrationOptions options;
  std::string output;
  int threads = 0;
  bool json = false;
};

std::string table(const cost::DeviceProfile& profile) {
  constexpr double kGiga = 1e9;
  std::string text = profile.name + "\n";
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<28} {:>10} {:>10} {:>14}\n", "class", "GFLOP/s", "GB/s", "GB/s cached");
  const auto number = [&](double rate) {
    return rate > 0 ? fmt::format("{:.1f}", rate / kGiga) : std::string("-");
  };
  for (const auto& [kernel_class, rate] : profile.classes)
    fmt::format_to(out, "{:<28} {:>10} {:>10} {:>14}\n", cost::name(kernel_class),
                   number(rate.flops_per_second), number(rate.bytes_per_second),
                   number(rate.cached_bytes_per_second));
  for (const cost::MemoryRate& rate : profile.memory)
    fmt::format_to(out, "{:<28} {:>10} {:>10}\n",
                   fmt::format("memory {} {} KiB", rate.operation, rate.bytes / 1024), "",
                   number(rate.bytes_per_second));
  for (const cost::SlowTierRate& tier : profile.slow_tiers)
    fmt::format_to(out, "slow tier {}: out {} GB/s, in {} GB/s, latency {:.1f} us\n", tier.name,
                   number(tier.out_bytes_per_second), number(tier.in_bytes_per_second),
                   tier.latency_seconds * 1e6);
  fmt::format_to(out, "a kernel with nothing to do takes {:.2f} us\n",
                 profile.launch_seconds * 1e6);
  return text;
}

Status run_calibrate_command(const CalibrateFlags& flags) {
  const int threads = resolve_threads(flags.threads);
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = threads});
  LT_ASSIGN(const cost::DeviceProfile profile,
            measure::calibrate(*kernels, cpu_identity(threads), flags.options));
  const std::string text = cost::print_device(profile);
  if (!flags.output.empty()) LT_RETURN_IF_ERROR(write_file_atomically(flags.output, text));
  put(flags.json ? text : table(profile));
  return {};
}

}  // namespace

void add_calibrate_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure this machine: kernels by class, memory, slow tiers; a device profile");
  command->add_option("-o,--output", flags->output, "write the profile here (for plan --device)")
      ->check(file_name());
  command->add_option("--threads", flags->threads, "0: as many as the machine has")
      ->check(whole_number(0, kMostThreads));
  command
      ->add_option("--slow-tier-folder", flags->options.slow_tier_folder,
                   "also measure a file in this folder as a slow tier")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--quick", flags->options.quick, "rough numbers within seconds");
  command->add_flag("--json", flags->json, "print the profile as JSON");
  command->callback(
      [flags, &action] { action = [flags] { return run_calibrate_command(*flags); }; });
}

}  // namespace lowtide::tools
