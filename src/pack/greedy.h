// First fit and best fit, the list heuristics: buffers in some order, each at the lowest or the
// tightest free place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pack/instance.h"

namespace lowtide::pack {

enum class GreedyFit { kFirst, kBest };

struct GreedyEnd {
  int64_t height;  // ends as soon as this height is reached
  int64_t units;   // of work
};

struct GreedyResult {
  bool complete = false;         // false: it ended before
  std::vector<int64_t> offsets;  // by item of the part, in units
  int64_t height = 0;            // with obstacles
  int64_t units = 0;
};

// Places the items of `part` in the order of `list`. O(n x buffers alive around one) as a rule.
GreedyResult pack_greedily(const Part& part, std::span<const int32_t> list, GreedyFit fit,
                           const GreedyEnd& end);

}  // namespace lowtide::pack
