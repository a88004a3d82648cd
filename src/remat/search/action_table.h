// The problem as flat index lists, turned around for the retention search: what each kind of action
// reads, makes, costs and waits for.
//
// A sequence is made of *actions*. Actions 0..n-1 are runs of the problem's ops; two more stand for
// the borders of the step: `begin` (before everything) and `end`, which reads every output of the
// step, so that outputs stay without a rule of their own. What an action is to the search is only
// this: a set of values it uses, a set of values whose instances are born with it, bytes and
// seconds of its own. A load of a value would be one more action with one birth and no reads, a
// drop one with one read: the state (sequence_state.h) asks nothing else.
//
// Time is in whole ticks (plan/tick_scale.h), as bounds are: sums do not depend on their order.
// Bytes are doubles that hold whole numbers: vector units add and compare them twice as fast as
// 64-bit integers. Where the sum of all sizes is too large for that (above 2^50), sizes are rounded
// up to a larger unit first, which keeps every plan that fits a plan that fits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::remat {

class ActionTable {
 public:
  struct Pair {
    int input, output;
  };

  // `problem` must pass plan::check.
  explicit ActionTable(const plan::ScheduleProblem& problem);

  int ops() const { return ops_; }
  int values() const { return static_cast<int>(value_bytes_.size()); }
  int begin() const { return ops_; }
  int end() const { return ops_ + 1; }
  int actions() const { return ops_ + 2; }

  std::span<const int> reads(int action) const { return reads_.row(action); }
  std::span<const int> makes(int action) const { return makes_.row(action); }
  std::span<const Pair> pairs(int action) const { return pairs_.row(action); }
  // Control: all runs of these come before, or after, every run of `action`.
  std::span<const int> before(int action) const { return before_.row(action); }
  std::span<const int> after(int action) const { return after_.row(action); }
  int64_t cost(int action) const { return cost_[static_cast<size_t>(action)]; }
  bool may_rerun(int action) const { return may_rerun_[static_cast<size_t>(action)] != 0; }
  double workspace(int action) const { return workspace_[static_cast<size_t>(action)]; }
  // The ops that read a value, ascending; `end` last, if it is an output.
  std::span<const int> readers(int value) const { return readers_.row(value); }
  int producer(int value) const { return producer_[static_cast<size_t>(value)]; }
  double bytes(int value) const { return value_bytes_[static_cast<size_t>(value)]; }

  // What may be present besides what always is; infinite without a budget.
  double capacity() const { return capacity_; }
  // Of the same unit as bytes().
  double from_bytes(int64_t bytes) const;
  bool is_rounded() const { return unit_ > 1; }
  int64_t once_cost() const { return once_cost_; }

 private:
  template <class T>
  struct Rows {
    std::vector<int> first{0};
    std::vector<T> items;
    std::span<const T> row(int key) const {
      const auto k = static_cast<size_t>(key);
      return std::span<const T>(items).subspan(static_cast<size_t>(first[k]),
                                               static_cast<size_t>(first[k + 1] - first[k]));
    }
  };
  template <class T>
  static Rows<T> pack(const std::vector<std::vector<T>>& lists);
  void set_unit(const plan::ScheduleProblem& problem);

  int ops_;
  double unit_ = 1;
  double capacity_ = 0;
  int64_t once_cost_ = 0;
  std::vector<int64_t> cost_;
  std::vector<char> may_rerun_;
  std::vector<double> workspace_, value_bytes_;
  std::vector<int> producer_;
  Rows<int> reads_, makes_, before_, after_, readers_;
  Rows<Pair> pairs_;
};

}  // namespace lowtide::remat
