// A greedy start for the retention search, our own: where memory overflows most, the value goes
// whose absence takes away the most overflow, summed over time, for the time of its rerun; again
// and again, until the schedule fits or nothing helps. What a rerun needs and is not there runs
// again as well, or lives on, whichever is better.
//
// Only values that promise much by themselves (bytes for the time of their own producer) are tried
// and measured. Of very many ops a moment is relieved as a whole: its values go in the order of
// that promise until it is within the capacity. The work is bounded by the number of ops, whatever
// the limit of the retention search is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/search/action_table.h"

namespace lowtide::remat {

struct GreedyStart {
  std::vector<SchedOpId> sequence;  // correct; it need not fit
  int64_t units = 0;
};

// `order`: a correct sequence of runs.
GreedyStart greedy_start(const ActionTable& table, std::span<const SchedOpId> order);

}  // namespace lowtide::remat
