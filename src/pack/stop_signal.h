// When a search has to stop for reasons other than its work: it was told to by the clock or the
// caller's flag, which are those of all limits (base/limits.h), or another order of the portfolio
// that ranks before it has decided.
//
// Tests: pack_test.cc.
#pragma once

#include <atomic>

#include "base/work.h"

namespace lowtide::pack {

class StopSignal {
 public:
  // By the safety stops of `limits`, from now on.
  explicit StopSignal(const Limits& limits) : limits_(limits) {}

  // The same clock and flag, a cancellation of its own.
  StopSignal(const StopSignal& other) : limits_(other.limits_), clock_(other.clock_) {}
  StopSignal& operator=(const StopSignal&) = delete;

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // By the clock or the caller's flag.
  bool told() const { return limits_.stop_after(clock_.seconds()); }
  bool set() const { return cancelled() || told(); }

 private:
  const Limits limits_;
  const WorkBudget clock_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace lowtide::pack
