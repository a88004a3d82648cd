// Greedy starts (greedy_start.h) that were made before, for who searches the same problems again:
// a search of labels looks at its best states a second time with more work, and greedy drops do not
// depend on that. They are known by a hash of all that they hang on, of 128 bits. All are kept: a
// search of labels makes some hundreds, of as many runs as a step has ops. May be asked by several
// threads at once; what is remembered changes no answer.
//
// Tests: known_starts_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "remat/starts/greedy_start.h"

namespace lowtide::remat {

class KnownStarts {
 public:
  // As greedy_start says; its units, too.
  GreedyStart greedy(const ActionTable& table, std::span<const SchedOpId> order);

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, GreedyStart> greedy_;  // by that hash
};

}  // namespace lowtide::remat
