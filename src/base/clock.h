// Wall time and processor time, for limits of time, measurements and reports: no plan depends on
// them but where a limit ends a search.
//
// Tests: src/pipeline/optimize_test.cc, src/exec/cpu/kernel_case_test.cc.
#pragma once

#include <chrono>
#include <ctime>

namespace lowtide {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

namespace detail {
inline double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
}  // namespace detail

// What processors have spent on the calling thread, and on all threads of this process: on a
// machine that others use too, the turns of others do not count.
inline double thread_seconds() {
  return detail::seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
inline double process_seconds() {
  return detail::seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

// To take differences of: of the calling thread's processor, or on the wall.
inline double now_seconds(bool of_processor) {
  return of_processor ? thread_seconds()
                      : std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace lowtide
