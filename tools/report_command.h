// report: what a plan does, for people: one HTML file, the same as JSON, and a trace.
#pragma once

#include "tools/commands.h"

namespace lowtide::tools {

void add_report_command(CLI::App& app, Action& action);

}  // namespace lowtide::tools
