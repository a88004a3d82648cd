// What every packing is at least as high as: the most bytes alive at one time, by a sweep over the
// ends of all lives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/pack_problem.h"

namespace lowtide::plan {

// O(n log n).
inline int64_t max_load_bytes(const PackProblem& problem) {
  // (time, change); at one time ends (negative) come first.
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const Buffer& b : problem.buffers) {
    events.emplace_back(b.live.begin, b.size_bytes);
    events.emplace_back(b.live.end, -b.size_bytes);
  }
  std::sort(events.begin(), events.end());
  int64_t load = 0, most = 0;
  for (const auto& event : events) most = std::max(most, load += event.second);
  return most;
}

}  // namespace lowtide::plan
