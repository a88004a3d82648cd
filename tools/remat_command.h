#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_remat_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
