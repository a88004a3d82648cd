// A search under watch: Ctrl-C asks it for its best so far, and long ones say on stderr where they
// stand.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>

#include "lowtide/api.h"

namespace lowtide::tools {

// While it lives, the first Ctrl-C raises the flag and no more; a second one ends the tool.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  const std::atomic<bool>& raised() const;

 private:
  void (*before_)(int);
};

// Best, bound and budget, at most a few times a second. On a terminal one line that is rewritten
// and goes away at the end, elsewhere a line each time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool terminal() const { return terminal_; }  // stderr is one
  void show(const PlanProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const Clock::time_point start_;
  Clock::time_point last_;  // when a line was shown
};

// --progress.
void add_progress_flag(CLI::App* command, bool& progress);

// Both for one search: sets options.cancel and options.progress. Progress is shown when stderr is a
// terminal, or `always`.
class SearchWatch {
 public:
  SearchWatch(PlanOptions& options, bool always);

 private:
  InterruptGuard interrupt_;
  ProgressLine line_;
};

}  // namespace lowtide::tools
