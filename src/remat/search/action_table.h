// The problem as flat index lists, turned around for the retention search: what each kind of action
// reads, makes, costs and waits for.
//
// A sequence is made of *actions*, which go by ids of ops: those of the problem's ops are their
// runs; two more ids stand for the borders of the step: `begin` (before everything) and `end`,
// which reads every output of the step, so that outputs stay without a rule of their own. What an action is to the search is only
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

#include "base/lists.h"
#include "plan/schedule_problem.h"

namespace lowtide::remat {

using plan::SchedOpId;
using plan::SchedValueId;

class ActionTable {
 public:
  struct Pair {
    SchedValueId input, output;
  };

  // `problem` must pass plan::check.
  explicit ActionTable(const plan::ScheduleProblem& problem);

  IdRange<SchedOpId> ops() const { return IdRange<SchedOpId>(op_count_); }
  IdRange<SchedValueId> values() const { return value_bytes_.ids(); }
  IdRange<SchedOpId> actions() const { return cost_.ids(); }
  size_t op_count() const { return op_count_; }
  size_t value_count() const { return value_bytes_.size(); }
  SchedOpId begin() const { return SchedOpId(op_count_); }
  SchedOpId end() const { return SchedOpId(op_count_ + 1); }
  bool is_op(SchedOpId action) const { return action.index() < op_count_; }

  std::span<const SchedValueId> reads(SchedOpId action) const { return reads_[action]; }
  std::span<const SchedValueId> makes(SchedOpId action) const { return makes_[action]; }
  std::span<const Pair> pairs(SchedOpId action) const { return pairs_[action]; }
  // Control: all runs of these come before, or after, every run of `action`.
  std::span<const SchedOpId> before(SchedOpId action) const { return before_[action]; }
  std::span<const SchedOpId> after(SchedOpId action) const { return after_[action]; }
  int64_t cost(SchedOpId action) const { return cost_[action]; }
  bool may_rerun(SchedOpId action) const { return may_rerun_[action] != 0; }
  double workspace(SchedOpId action) const { return workspace_[action]; }
  // The ops that read a value, ascending; `end` last, if it is an output.
  std::span<const SchedOpId> readers(SchedValueId value) const { return readers_[value]; }
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
  void list_ops(const plan::ScheduleProblem& problem);
  void list_values(const plan::ScheduleProblem& problem);

  size_t op_count_;
  double unit_ = 1;
  double capacity_ = 0;
  int64_t once_cost_ = 0;
  IdVector<SchedOpId, int64_t> cost_;  // of actions
  IdVector<SchedOpId, char> may_rerun_;
  IdVector<SchedOpId, double> workspace_;
  IdVector<SchedValueId, double> value_bytes_;
  IdVector<SchedValueId, SchedOpId> producer_;
  Lists<SchedOpId, SchedValueId> reads_, makes_;
  Lists<SchedOpId, SchedOpId> before_, after_;
  Lists<SchedValueId, SchedOpId> readers_;
  Lists<SchedOpId, Pair> pairs_;
};

}  // namespace lowtide::remat
