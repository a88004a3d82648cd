// The problem as the retention search sees it: its index lists (plan/problem_index.h), with what
// each action costs.
//
// A sequence is made of *actions*, which go by ids of ops: those of the problem's ops are their
// runs, the two after them the borders of the step. What an action is to the search is only this: a
// set of values it uses, a set of values whose instances are born with it, bytes and seconds of its
// own. A load of a value would be one more action with one birth and no reads, a drop one with one
// read: the state (sequence_state.h) asks nothing else.
//
// Time is in whole ticks (plan/tick_scale.h), as bounds are: sums do not depend on their order.
// Bytes are doubles that hold whole numbers: vector units add and compare them twice as fast as
// 64-bit integers. Where the sum of all sizes is too large for that (above 2^50), sizes are rounded
// up to a larger unit first, which keeps every plan that fits a plan that fits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/lists.h"
#include "plan/problem_index.h"
#include "plan/schedule_problem.h"

namespace lowtide::remat {

using plan::SchedOpId;
using plan::SchedValueId;

// The in-place pairs of an op are few; later ones than so many are not looked at.
inline constexpr size_t kMostPairs = 64;

class ActionTable {
 public:
  struct Pair {
    SchedValueId input, output;
  };

  // `problem` must pass plan::check.
  explicit ActionTable(const plan::ScheduleProblem& problem);

  IdRange<SchedOpId> ops() const { return IdRange<SchedOpId>(op_count()); }
  IdRange<SchedValueId> values() const { return value_bytes_.ids(); }
  IdRange<SchedOpId> actions() const { return cost_.ids(); }
  size_t op_count() const { return index_.op_count; }
  size_t value_count() const { return value_bytes_.size(); }
  SchedOpId begin() const { return index_.begin(); }
  SchedOpId end() const { return index_.end(); }
  bool is_op(SchedOpId action) const { return index_.is_op(action); }

  std::span<const SchedValueId> reads(SchedOpId action) const { return index_.reads[action]; }
  std::span<const SchedValueId> makes(SchedOpId action) const { return index_.makes[action]; }
  std::span<const Pair> pairs(SchedOpId action) const { return pairs_[action]; }
  // Control: all runs of these come before, or after, every run of `action`.
  std::span<const SchedOpId> before(SchedOpId action) const { return index_.waits_for[action]; }
  std::span<const SchedOpId> after(SchedOpId action) const { return index_.waits_after[action]; }
  int64_t cost(SchedOpId action) const { return cost_[action]; }
  bool may_rerun(SchedOpId action) const { return may_rerun_[action] != 0; }
  double workspace(SchedOpId action) const { return workspace_[action]; }
  // The ops that read a value, ascending; `end` last, if it is an output.
  std::span<const SchedOpId> readers(SchedValueId value) const { return index_.readers[value]; }
  SchedOpId producer(SchedValueId value) const { return producer_[value]; }
  double bytes(SchedValueId value) const { return value_bytes_[value]; }

  // What may be present besides what always is; infinite without a budget.
  double capacity() const { return capacity_; }
  // Of the same unit as bytes().
  double from_bytes(int64_t bytes) const;
  bool is_rounded() const { return unit_ > 1; }
  int64_t once_cost() const { return once_cost_; }

 private:
  void set_unit(const plan::ScheduleProblem& problem);
  void price_ops(const plan::ScheduleProblem& problem);
  void list_pairs(const plan::ScheduleProblem& problem);

  plan::ProblemIndex index_;
  double unit_ = 1;
  double capacity_ = 0;
  int64_t once_cost_ = 0;
  IdVector<SchedOpId, int64_t> cost_;  // of actions
  IdVector<SchedOpId, char> may_rerun_;
  IdVector<SchedOpId, double> workspace_;
  IdVector<SchedValueId, double> value_bytes_;
  IdVector<SchedValueId, SchedOpId> producer_;
  Lists<SchedOpId, Pair> pairs_;
};

}  // namespace lowtide::remat
