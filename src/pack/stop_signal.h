// When a search has to stop for reasons other than its budget: the clock ran out, or another order
// of the portfolio that ranks before it has decided.
#pragma once

#include <atomic>
#include <chrono>

namespace lowtide::pack {

class StopSignal {
 public:
  explicit StopSignal(double max_seconds) : end_(Clock::now() + to_duration(max_seconds)) {}

  // The same deadline, a cancellation of its own.
  StopSignal(const StopSignal& other) : end_(other.end_) {}
  StopSignal& operator=(const StopSignal&) = delete;

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool timed_out() const { return Clock::now() >= end_; }
  bool set() const { return cancelled() || timed_out(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration to_duration(double seconds) {
    constexpr double kForever = 1e8;  // about three years, so that the sum does not overflow
    if (!(seconds < kForever)) seconds = kForever;
    if (seconds < 0) seconds = 0;
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::time_point end_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace lowtide::pack
