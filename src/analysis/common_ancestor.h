// The latest common ancestor of several ops: which op, of all that come before each of them, comes
// last in the given order.
//
// Walks back through the order from the latest op that one of them waits for, and keeps for each op
// a row of bits, one for each of those that wait for it; the first op with all bits is the answer
// (reachability by bit vectors). So an op costs its predecessors times the words of a row. The
// rows, of one search after another, stay allocated.
//
// Tests: common_ancestor_test.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "plan/schedule_problem.h"

namespace lowtide::analysis {

class CommonAncestors {
 public:
  using Before = IdVector<plan::SchedOpId, std::vector<plan::SchedOpId>>;

  // `before`, which is borrowed: of each op those that it waits for, all before it in the order of
  // ids. A search ends after `most_seen` ancestors.
  CommonAncestors(const Before& before, size_t most_seen)
      : before_(before), most_seen_(most_seen) {}

  // None: there is no such op, or it was not come to. Ops that are `left_out(op)` are no ancestors,
  // nor is what they wait for because of them.
  template <class LeftOut>
  std::optional<plan::SchedOpId> latest(const std::vector<plan::SchedOpId>& all,
                                        const LeftOut& left_out) {
    begin(all);
    size_t seen = 0;
    for (size_t i = end_; i-- > 0 && seen < most_seen_;) {
      const plan::SchedOpId op(i);
      const uint64_t* const row = &rows_[i * words_];
      int count = 0;
      for (size_t w = 0; w < words_; ++w) count += std::popcount(row[w]);
      if (count == 0) continue;
      ++seen;
      if (left_out(op)) continue;
      if (static_cast<size_t>(count) == all.size()) return op;
      for (const plan::SchedOpId p : before_[op])
        for (size_t w = 0; w < words_; ++w) rows_[p.index() * words_ + w] |= row[w];
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kBits = 64;  // of a word

  void begin(const std::vector<plan::SchedOpId>& all) {
    words_ = (all.size() + kBits - 1) / kBits;
    rows_.assign(before_.size() * words_, 0);
    end_ = 0;
    for (size_t k = 0; k < all.size(); ++k)
      for (const plan::SchedOpId p : before_[all[k]]) {
        rows_[p.index() * words_ + k / kBits] |= uint64_t{1} << k % kBits;
        end_ = std::max(end_, size_t{p.index()} + 1);
      }
  }

  const Before& before_;
  const size_t most_seen_;
  size_t words_ = 0;
  std::vector<uint64_t> rows_;  // by op
  size_t end_ = 0;              // ops from there on have no bits
};

}  // namespace lowtide::analysis
