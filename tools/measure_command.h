// measure: times the kernels of a model's step in parts into a cost store.
#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_measure_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
