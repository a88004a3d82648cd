// The flags that say what is planned, for which device and how hard: shared by every command that
// makes plans.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "lowtide/api.h"
#include "tools/output_files.h"

namespace lowtide::tools {

inline constexpr uint64_t kMostSeed = std::numeric_limits<uint64_t>::max();

struct PlanFlags {
  std::string model, link, dropout = "on";
  std::vector<std::string> dims;  // "batch=8"
  PlanOptions options;
};

// The files among them that are read, for check_outputs (output_files.h).
std::vector<NamedPath> inputs_of(const PlanFlags& flags);

// The model, the step (--train and what belongs to it), --dim, --device, --costs, --threads,
// --seed, --time-limit.
void add_model_flags(CLI::App* command, PlanFlags& flags);
// --dim alone, and the sizes it gives. Error: kUsage: not name=size, or a name twice.
void add_dim_flag(CLI::App* command, std::vector<std::string>& dims);
Result<std::map<std::string, int64_t, std::less<>>> parse_dims(
    const std::vector<std::string>& dims);
// Which ops are cut beside the step's parts: --cut, --query-blocks. Of add_search_flags, too.
void add_cut_flags(CLI::App* command, PlanOptions& options);
// What a planner under a budget may do: --no-recompute, --swap, --link, --effort.
void add_search_flags(CLI::App* command, PlanFlags& flags);

// A flag that only means something together with another is refused without it; one that the
// command has not is not given.
Status needs(const CLI::App& command, const char* flag, bool there, const char* other);

// Whether a flag speaks of levers, so that these are no longer open (api/levers.h).
bool names_levers(const CLI::App& command);

// Checks the flags against each other, finishes `flags.options` and reads the model. Error: kUsage,
// kInput.
Result<Model> read_model(const CLI::App& command, PlanFlags& flags);

}  // namespace lowtide::tools
