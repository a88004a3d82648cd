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
  // Whoever counts steps of its own says how many units one is. The safety stops are looked at
  // about every 16,384 units.
  explicit WorkBudget(const Limits& limits, int64_t units_per_step = 1)
      : limits_(limits), units_per_step_(units_per_step), start_(Clock::now()) {}

  // Counts work; false when the budget is spent.
  bool spend(int64_t steps = 1) {
    used_ += steps * units_per_step_;
    if (used_ > limits_.max_units) exhausted_ = true;
    if ((used_ >> 14) != (looked_ >> 14)) {
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
  // In units; in steps.
  int64_t used() const { return used_; }
  int64_t remaining() const { return limits_.max_units > used_ ? limits_.max_units - used_ : 0; }
  int64_t steps_used() const { return used_ / units_per_step_; }
  int64_t steps_remaining() const { return remaining() / units_per_step_; }
  // What is left of all three, for a part of the search that counts by itself.
  Limits left() const { return limits_.with_units(remaining()).after(seconds()); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Limits limits_;
  int64_t units_per_step_ = 1;
  int64_t used_ = 0;
  int64_t looked_ = 0;
  Clock::time_point start_;
  bool exhausted_ = false;
  bool timed_out_ = false;
};

}  // namespace lowtide
