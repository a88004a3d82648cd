// Wall time, for reports: no result depends on it.
//
// Tests: src/pipeline/optimize_test.cc.
#pragma once

#include <chrono>

namespace lowtide {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace lowtide
