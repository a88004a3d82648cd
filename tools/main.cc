// `lowtide`: the command line. Reads flags, runs one command, turns its error into one line and an
// exit code.
#include <cstdio>
#include <exception>

#include "base/result.h"
#include "tools/commands.h"

namespace {

constexpr int kUsageExit = 2;

int report(const lowtide::Error& failure) {
  std::fprintf(stderr, "lowtide: %s\n", failure.message.c_str());
  return lowtide::exit_code(failure.code);
}

int run(int argc, char** argv) {
  CLI::App app("Plans neural-network memory: op order and addresses, proven, verified, executed.",
               "lowtide");
  app.set_version_flag("--version", LOWTIDE_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  lowtide::tools::Action action;
  lowtide::tools::add_model_commands(app, action);
  lowtide::tools::add_problem_commands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? 0 : kUsageExit;
  }
  const lowtide::Status status = action();
  if (!status) return report(status.error());
  if (std::fflush(stdout) != 0) {
    std::fprintf(stderr, "lowtide: cannot write to standard output\n");
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    // Nothing of ours throws; this is memory exhaustion or a fault in a library.
    std::fprintf(stderr, "lowtide: internal error: %s\n", failure.what());
    return 1;
  }
}
