#include "tools/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/bytes.h"

namespace lowtide::tools {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// On a terminal soon enough to be seen, in a log seldom enough to be read.
constexpr std::chrono::milliseconds kTerminalPause{200}, kLogPause{1000};

extern "C" void raise_flag(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

std::string words(const PlanProgress& progress, double seconds) {
  std::string text = fmt::format("{:.0f} s, {:.0f} % of the work, budget {}", seconds,
                                 progress.share * 100, format_bytes(progress.budget_bytes));
  text += progress.seconds > 0 ? fmt::format(": best {:.1f} ms", progress.seconds * 1e3)
                               : std::string(": nothing fits yet");
  if (progress.unpacked_seconds > 0)
    text += fmt::format(", {:.1f} ms not packed yet", progress.unpacked_seconds * 1e3);
  if (progress.lower_bound_seconds > 0)
    text += fmt::format(", at least {:.1f} ms", progress.lower_bound_seconds * 1e3);
  if (progress.seconds > 0 && progress.lower_bound_seconds > 0)
    text +=
        fmt::format(", gap {:.2f} %", 100 * (progress.seconds / progress.lower_bound_seconds - 1));
  return text + fmt::format(" ({})", progress.stage);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  before_ = std::signal(SIGINT, &raise_flag);
}
InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, before_);
}
const std::atomic<bool>& InterruptGuard::raised() const {
  return interrupted;
}

ProgressLine::ProgressLine()
    : terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), last_(start_) {}
ProgressLine::~ProgressLine() {
  if (terminal_ && last_ != start_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const PlanProgress& progress) {
  const auto now = Clock::now();
  const bool first = last_ == start_;
  if (now - last_ < (terminal_ ? kTerminalPause : kLogPause) && !(first && !terminal_)) return;
  last_ = now;
  const std::string text = words(progress, std::chrono::duration<double>(now - start_).count());
  std::fputs((terminal_ ? "\r\033[K" + text : "lowtide: " + text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

void add_progress_flag(CLI::App* command, bool& progress) {
  command->add_flag("--progress", progress,
                    "say on stderr how the search stands, also where that is no terminal");
}

SearchWatch::SearchWatch(PlanOptions& options, bool always) {
  options.cancel = &interrupt_.raised();
  if (always || line_.terminal())
    options.progress = [this](const PlanProgress& progress) { line_.show(progress); };
}

}  // namespace lowtide::tools
