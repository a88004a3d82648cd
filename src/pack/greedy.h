// First fit and best fit, the list heuristics: buffers in some order, each at the lowest or the
// tightest free place.
#pragma once

#include <cstdint>
#include <vector>

#include "pack/instance.h"

namespace lowtide::pack {

enum class GreedyOrder { kSize, kArea, kDuration, kStart };
enum class GreedyFit { kFirst, kBest };

struct GreedyResult {
  bool complete = false;         // false: the work limit ended it
  std::vector<int64_t> offsets;  // by item of the part, in units
  int64_t height = 0;            // with obstacles
  int64_t units = 0;
};

// Descending size, size x life or life; kStart is ascending begin (ties: larger first). Stops when
// more than `work_limit` units (512 placed buffers looked at) are spent. O(n^2) at worst, in little
// memory: no pairs are stored.
GreedyResult pack_greedily(const Part& part, GreedyOrder order, GreedyFit fit, int64_t work_limit);

}  // namespace lowtide::pack
