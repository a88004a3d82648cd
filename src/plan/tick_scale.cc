#include "plan/tick_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/plan.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {
namespace {

constexpr int kMostExponent = 1000;  // 2^1000 is finite

std::vector<double> seconds_of(const ScheduleProblem& problem) {
  std::vector<double> seconds;
  for (const SchedOp& op : problem.ops) seconds.push_back(op.seconds);
  return seconds;
}

std::vector<double> seconds_of(const Plan& plan) {
  std::vector<double> seconds;
  for (const PlanOp& op : plan.ops) seconds.push_back(op.predicted_seconds);
  return seconds;
}

// Each at most 2^41 ticks. By a power of two, so the product is ldexp's.
__int128 sum_of(std::span<const double> seconds, double to_ticks) {
  __int128 sum = 0;
  for (const double s : seconds) sum += static_cast<int64_t>(s * to_ticks);
  return sum;
}

}  // namespace

TickScale::TickScale(std::span<const double> seconds) {
  const double most = seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
  int digits = 0;  // most is less than 2^digits
  std::frexp(most, &digits);
  exponent_ = std::min(41 - digits, kMostExponent);
  for (;; --exponent_) {
    seconds_to_ticks_ = std::ldexp(1.0, exponent_);
    const __int128 sum = sum_of(seconds, seconds_to_ticks_);
    once_ = static_cast<int64_t>(sum);
    if (sum <= kMostStepTicks) return;
  }
}

TickScale::TickScale(const ScheduleProblem& problem) : TickScale(seconds_of(problem)) {}
TickScale::TickScale(const Plan& plan) : TickScale(seconds_of(plan)) {}

int64_t TickScale::down(double seconds) const {
  return static_cast<int64_t>(
      std::min(seconds * seconds_to_ticks_, static_cast<double>(kMostTicks)));
}

int64_t TickScale::up(double seconds) const {
  return static_cast<int64_t>(
      std::min(std::ceil(seconds * seconds_to_ticks_), static_cast<double>(kMostTicks)));
}

double TickScale::seconds(int64_t ticks) const {
  return std::ldexp(static_cast<double>(ticks), -exponent_);
}

double TickScale::bound_seconds(int64_t ticks, double once_seconds, bool moves) const {
  if (ticks <= once_) return once_seconds;
  return moves ? std::max(once_seconds, seconds(ticks)) : once_seconds + seconds(ticks - once_);
}

}  // namespace lowtide::plan
