// sweep: plans of one model for many budgets, as a table, JSON, a picture and plan files.
#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_sweep_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
