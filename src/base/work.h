// Limits. Solvers count units of work (states, nodes, placements) against a budget, so that the
// same input gives the same answer on every machine; wall time is only a safety stop, and so is a
// flag that a user raises; that one of them acted is visible in the outcome.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lowtide {

class WorkBudget {
 public:
  // max_units: work units; max_seconds: safety stop in wall time; *cancel: a safety stop, too, once
  // it is true. Both are looked at every 1,024 units.
  explicit WorkBudget(int64_t max_units, double max_seconds = 1e9,
                      const std::atomic<bool>* cancel = nullptr)
      : max_units_(max_units), start_(Clock::now()), max_seconds_(max_seconds), cancel_(cancel) {}

  // Counts work; false when the budget is spent.
  bool spend(int64_t units = 1) {
    used_ += units;
    if (used_ > max_units_) exhausted_ = true;
    if ((used_ >> 10) != (looked_ >> 10)) {
      looked_ = used_;
      look();
    }
    return !exhausted_;
  }
  // At the clock and the flag, now: before work in large pieces begins. False: the end.
  bool look() {
    if (seconds() > max_seconds_ || cancelled()) exhausted_ = timed_out_ = true;
    return !exhausted_;
  }
  bool exhausted() const { return exhausted_; }
  bool timed_out() const { return timed_out_; }  // or cancelled
  bool cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }
  int64_t used() const { return used_; }
  int64_t remaining() const { return max_units_ > used_ ? max_units_ - used_ : 0; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t max_units_;
  int64_t used_ = 0;
  int64_t looked_ = 0;
  Clock::time_point start_;
  double max_seconds_;
  const std::atomic<bool>* cancel_;
  bool exhausted_ = false;
  bool timed_out_ = false;
};

}  // namespace lowtide
