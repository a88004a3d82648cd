// calibrate: measures this machine into a device profile.
#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_calibrate_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
