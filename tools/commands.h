// The commands of the `lowtide` tool. Results go to stdout, complaints to stderr; the exit code
// says what happened (docs/formats.md, "Exit codes").
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "lowtide/result.h"

namespace lowtide::tools {

// What a chosen command does once its flags are read. Set by the command's callback.
using Action = std::function<Status()>;

// Each adds its subcommands to `app`; when one of them was given, `action` is what it does.
void add_model_commands(CLI::App& app, Action& action);    // plan, verify, run, inspect
void add_problem_commands(CLI::App& app, Action& action);  // order, pack, remat

}  // namespace lowtide::tools
