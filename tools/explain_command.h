// explain: where one tensor, op or module of a plan lies and when, and why.
#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_explain_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
