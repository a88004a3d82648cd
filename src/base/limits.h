// Limits of a search, the same three for every solver: units of work decide the answer, so that the
// same input gives the same one on every machine; the clock and a flag that a user raises are
// safety stops, and that one of them acted is visible in the outcome (`timed_out`, `cut_short`).
//
// A unit of work is about 5 ns of one core, for every solver: work that one did is work that
// another may no longer do. Nobody looks at a clock for it. A solver counts its own elementary
// steps (arcs looked at, ops put into a sequence, pivots), and a constant beside it says how many
// units such a step is; measured where nothing else is said, and right within a factor of two.
//
// Counts that say how an algorithm goes on (rounds, splits, widths, units without progress) are no
// limits, and stay with its options.
//
// Tests: base_test.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace lowtide {

struct Limits {
  int64_t max_units = std::numeric_limits<int64_t>::max();
  double max_seconds = 1e9;                   // of wall time, from where the search begins
  const std::atomic<bool>* cancel = nullptr;  // true: stop soon with the best so far; null: never

  bool cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  // Whether a safety stop acts on a search that began so long ago.
  bool stop_after(double seconds) const { return seconds > max_seconds || cancelled(); }

  // For a part of the search: other units; what is left of the time after so much of it.
  Limits with_units(int64_t units) const { return {units, max_seconds, cancel}; }
  Limits after(double seconds) const {
    return {max_units, std::max(0.0, max_seconds - seconds), cancel};
  }
};

inline constexpr double kUnitsPerSecond = 200e6;

// The units that one core reaches in about that time; at least one.
inline int64_t units_in(double seconds) {
  return static_cast<int64_t>(std::clamp(seconds * kUnitsPerSecond, 1.0, 1e17));
}

}  // namespace lowtide
