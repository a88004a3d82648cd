// When a search has to stop for reasons other than its budget: it was told to by the clock or the
// caller's flag, or another order of the portfolio that ranks before it has decided.
//
// Tests: pack_test.cc.
#pragma once

#include <atomic>
#include <chrono>

#include "base/limits.h"

namespace lowtide::pack {

class StopSignal {
 public:
  // By the safety stops of `limits`, from now on.
  explicit StopSignal(const Limits& limits)
      : end_(Clock::now() + to_duration(limits.max_seconds)), flag_(limits.cancel) {}

  // The same deadline and flag, a cancellation of its own.
  StopSignal(const StopSignal& other) : end_(other.end_), flag_(other.flag_) {}
  StopSignal& operator=(const StopSignal&) = delete;

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // By the clock or the caller's flag.
  bool told() const {
    return Clock::now() >= end_ || (flag_ != nullptr && flag_->load(std::memory_order_relaxed));
  }
  bool set() const { return cancelled() || told(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration to_duration(double seconds) {
    constexpr double kForever = 1e8;  // about three years, so that the sum does not overflow
    if (!(seconds < kForever)) seconds = kForever;
    if (seconds < 0) seconds = 0;
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::time_point end_;
  const std::atomic<bool>* flag_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace lowtide::pack
