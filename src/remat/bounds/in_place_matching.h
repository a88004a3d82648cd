// Maximum-weight matching of inputs and outputs, by trying all ways: the most bytes that pairs of
// an input and an output save in place, where no two of them have one in common. An op has a
// handful of pairs at most.
//
// Tests: closure_cut_test.cc, backward_search_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::remat {

class InPlaceMatching {
 public:
  void clear() { pairs_.clear(); }
  void add(plan::SchedValueId input, plan::SchedValueId output, int64_t bytes) {
    pairs_.push_back({input, output, bytes});
  }
  int64_t most_bytes() {
    int64_t best = 0, saved = 0;
    taken_.clear();
    for (size_t next = 0;;) {  // depth-first over sets of pairs, in ascending order
      for (; next < pairs_.size() && clashes(next); ++next) {
      }
      if (next < pairs_.size()) {
        saved += pairs_[next].bytes;
        best = std::max(best, saved);
        taken_.push_back(next++);
        continue;
      }
      if (taken_.empty()) return best;
      next = taken_.back() + 1;
      saved -= pairs_[taken_.back()].bytes;
      taken_.pop_back();
    }
  }

 private:
  struct Pair {
    plan::SchedValueId input, output;
    int64_t bytes;
  };
  bool clashes(size_t next) const {
    return std::any_of(taken_.begin(), taken_.end(), [&](size_t t) {
      return pairs_[t].input == pairs_[next].input || pairs_[t].output == pairs_[next].output;
    });
  }
  std::vector<Pair> pairs_;
  std::vector<size_t> taken_;
};

}  // namespace lowtide::remat
