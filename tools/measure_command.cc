#include "tools/measure_command.h"

#include <filesystem>
#include <memory>
#include <string>

#include "api/costs.h"
#include "api/part_times.h"
#include "api/running.h"
#include "tools/flags.h"
#include "tools/plan_flags.h"

namespace lowtide::tools {
namespace {

constexpr uint64_t kMostRounds = cost::kMostRuns;
constexpr int64_t kMebibyte = int64_t{1} << 20;

struct MeasureCommand {
  PlanFlags flags;
  PartTimesOptions timing;
  std::string output;
  int64_t evict_mebibytes = PartTimesOptions{}.evicted_bytes / kMebibyte;
  bool json = false;
};

Status run_measure_command(const CLI::App& command, MeasureCommand& given) {
  LT_ASSIGN(const Model model, read_model(command, given.flags));
  // A store of another device is refused before anything is timed.
  std::error_code failure;
  if (std::filesystem::exists(given.output, failure))
    LT_RETURN_IF_ERROR(
        load_costs(given.output, cpu_identity(resolve_threads(given.flags.options.threads))));
  given.timing.evicted_bytes = given.evict_mebibytes * kMebibyte;
  LT_ASSIGN(const PartTimes times, time_parts(model, given.flags.options, given.timing));
  if (!given.output.empty()) LT_RETURN_IF_ERROR(add_costs(given.output, times.store));
  put(given.json ? print_json(times) : print(times));
  return {};
}

}  // namespace

void add_measure_command(CLI::App& app, Action& action) {
  auto given = std::make_shared<MeasureCommand>();
  CLI::App* command = app.add_subcommand(
      "measure", "Time the kernels of a step in parts here, into a cost store (for plan --costs)");
  add_model_flags(command, given->flags);
  add_cut_flags(command, given->flags.options);
  command
      ->add_option("-o,--output", given->output,
                   "add the times to this cost store, which is made if it is absent")
      ->check(file_name());
  command
      ->add_option("--parts", given->timing.parts,
                   "numbers of parts, as in 1,2,4; default: all that a search may ask for")
      ->delimiter(',')
      ->type_name("N,...")
      ->default_str("")
      ->check(whole_number(1, uint64_t{1} << 20));
  command->add_option("--rounds", given->timing.rounds, "over all kernels; their median counts")
      ->check(whole_number(1, kMostRounds));
  command
      ->add_option("--evict", given->evict_mebibytes,
                   "MiB of other memory that are written between two runs of a kernel, so that its "
                   "operands leave the caches, as in a step; 0: they stay")
      ->check(whole_number(0, 1 << 16));
  command->add_flag("--json", given->json, "print the result as JSON");
  command->callback([given, command, &action] {
    action = [given, command] { return run_measure_command(*command, *given); };
  });
}

}  // namespace lowtide::tools
