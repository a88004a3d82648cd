// Counts work, and looks at the clock and the flag now and then, within limits (base/limits.h).
//
// Tests: base_test.cc.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/limits.h"

namespace lowtide {

class WorkBudget {
 public:
  WorkBudget() : WorkBudget(Limits{}) {}  // without limits: a clock
  // The safety stops are looked at every 1,024 units.
  explicit WorkBudget(const Limits& limits) : limits_(limits), start_(Clock::now()) {}

  // Counts work; false when the budget is spent.
  bool spend(int64_t units = 1) {
    used_ += units;
    if (used_ > limits_.max_units) exhausted_ = true;
    if ((used_ >> 10) != (looked_ >> 10)) {
      looked_ = used_;
      look();
    }
    return !exhausted_;
  }
  // At the clock and the flag, now: before work in large pieces begins. False: the end.
  bool look() {
    if (limits_.stop_after(seconds())) exhausted_ = timed_out_ = true;
    return !exhausted_;
  }
  bool exhausted() const { return exhausted_; }
  bool timed_out() const { return timed_out_; }  // or cancelled
  bool cancelled() const { return limits_.cancelled(); }
  int64_t used() const { return used_; }
  int64_t remaining() const { return limits_.max_units > used_ ? limits_.max_units - used_ : 0; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Limits limits_;
  int64_t used_ = 0;
  int64_t looked_ = 0;
  Clock::time_point start_;
  bool exhausted_ = false;
  bool timed_out_ = false;
};

}  // namespace lowtide
