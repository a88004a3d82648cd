// Ticks: the whole numbers in which bounds on the time of a step are found, claimed and checked.
//
// A tick is a power of two of a second, chosen from the times of the step's ops: the smallest with
// which all of them, each once and each rounded down, are at most 2^40 ticks. So a nanosecond's
// step and an hour's keep the same precision (an op loses less than 2^-39 of the step), a product
// with a power of two rounds nothing, and, as sums of whole numbers do not depend on their order,
// any two programs that know the ops' times find the same ticks.
//
// Everything that a bound is made of is counted in them, or in 2^-20 of them for each byte or each
// share of a time. Both who proves and who checks round down and cap with the constants below, to
// the same number, so a claim is compared with what is shown for equality and order alone. Capping
// and rounding down weaken a bound, and never make it false.
//
// Example: ops of 3, 1 and 0.5 s: 2^-38 s would be 1.125 * 2^40 ticks, so a tick is 2^-37 s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lowtide::plan {

struct ScheduleProblem;
struct Plan;

// Of an op, a latency, a step: no planner writes more, and sums of them stay finite.
inline constexpr double kMaxSeconds = 1e12;
inline constexpr int64_t kTickParts = int64_t{1} << 20;  // fixed point of prices and shares
inline constexpr int64_t kMostStepTicks = int64_t{1} << 40;
// Of one cost: of a run, a stay, a transfer; and of what anything is worth.
inline constexpr int64_t kMostTicks = int64_t{1} << 42;
// Of one arc of a network; with so many ops and storages, all together stay below 2^61.
inline constexpr int64_t kMostArcTicks = int64_t{1} << 43;
inline constexpr size_t kMostTickNodes = size_t{1} << 18;
inline constexpr int64_t kMostPrice = int64_t{1} << 60;  // of a byte, in 2^-20 ticks

class TickScale {
 public:
  // Times of the ops that are finite and not negative; those of 0 change nothing.
  explicit TickScale(std::span<const double> seconds);
  explicit TickScale(const ScheduleProblem& problem);
  explicit TickScale(const Plan& plan);

  // Rounded down or up, at most kMostTicks.
  int64_t down(double seconds) const;
  int64_t up(double seconds) const;
  double seconds(int64_t ticks) const;
  double per_second() const { return seconds_to_ticks_; }
  int64_t once() const { return once_; }  // all ops

  // What a bound of so many ticks on every schedule says in seconds. Where nothing moves, each op
  // takes its whole time at least once, so only what is beyond loses what rounding took.
  double bound_seconds(int64_t ticks, double once_seconds, bool moves) const;

  bool operator==(const TickScale&) const = default;

 private:
  int exponent_ = 0;  // a tick is 2^-exponent_ s
  double seconds_to_ticks_ = 1;
  int64_t once_ = 0;
};

}  // namespace lowtide::plan
