// `lowtide`: the command line. Reads flags, runs one command, turns its error into one line and an
// exit code.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/result.h"
#include "tools/calibrate_command.h"
#include "tools/commands.h"
#include "tools/explain_command.h"
#include "tools/flags.h"
#include "tools/measure_command.h"
#include "tools/report_command.h"
#include "tools/sweep_command.h"

namespace {

constexpr size_t kMostLine = 1200;  // bytes of a message that reach the terminal

// One line, or for a verification that failed one line per finding.
int report(const lowtide::Error& failure) {
  std::string_view rest = failure.message;
  std::string lines;
  while (failure.code == lowtide::ErrorCode::kVerification &&
         rest.find('\n') != std::string_view::npos) {
    lines += lowtide::printable(rest.substr(0, rest.find('\n')), kMostLine) + "\n";
    rest.remove_prefix(rest.find('\n') + 1);
  }
  std::fprintf(stderr, "lowtide: %s%s\n", lines.c_str(),
               lowtide::printable(rest, kMostLine).c_str());
  return lowtide::exit_code(failure.code);
}

// Everything that went to stdout has arrived there, or the tool fails.
int finish(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "lowtide: cannot write to standard output\n");
  return code == 0 ? 1 : code;
}

// Planning makes and drops many graphs and problems of some megabytes. What is freed is kept for
// the next ones: handing it back to the system and taking it again, page by page, costs some per
// cent. Small blocks are joined as they are freed: kept apart, all of them are gone over each time
// that a large block is freed, which takes up to a fifth of the time of a plan.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kBytesMapped = 32 << 20, kBytesKept = 256 << 20;
  mallopt(M_MXFAST, 0);
  mallopt(M_MMAP_THRESHOLD, kBytesMapped);
  mallopt(M_TRIM_THRESHOLD, kBytesKept);
#endif
}

int run(int argc, char** argv) {
  CLI::App app("Plans neural-network memory: op order and addresses, proven, verified, executed.",
               "lowtide");
  app.set_version_flag("--version", LOWTIDE_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  lowtide::tools::Action action;
  lowtide::tools::add_model_commands(app, action);
  lowtide::tools::add_sweep_command(app, action);
  lowtide::tools::add_report_command(app, action);
  lowtide::tools::add_explain_command(app, action);
  lowtide::tools::add_problem_commands(app, action);
  lowtide::tools::add_calibrate_command(app, action);
  lowtide::tools::add_measure_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;
    app.exit(wanted, text, text);
    lowtide::tools::put(text.str());
    return finish(0);
  } catch (const CLI::ParseError& failure) {
    return report({lowtide::ErrorCode::kUsage, lowtide::tools::usage_line(app, failure)});
  }
  const lowtide::Status status = action();
  return finish(status ? 0 : report(status.error()));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is a write that fails, with its line
  keep_freed_memory();
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    // Nothing of ours throws; this is memory exhaustion or a fault in a library.
    return report(
        {lowtide::ErrorCode::kInternal, std::string("internal error: ") + failure.what()});
  }
}
