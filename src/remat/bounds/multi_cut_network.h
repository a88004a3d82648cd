// The subproblem of a multi-cut's Lagrangian relaxation (multi_cut.h): for given multipliers, one
// minimum cut per segment, by maximum flow. Their costs together are the bound that these
// multipliers prove; by how much the chosen cuts miss each priced constraint is a subgradient,
// which says what to change the multipliers by.
//
// A segment's network has a node for each op (on the source's side: it runs in the segment) and for
// each value (it stays in memory at the segment's first op). An op costs its time less its credit;
// a value its bytes at the price less what it is worth to the segments on either side. That an op's
// run needs its inputs there, or their makers run, are arcs without a limit.
//
// Tests: multi_cut_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/max_flow.h"
#include "remat/bounds/cut_segments.h"
#include "remat/bounds/multi_cut_ways.h"

namespace lowtide::remat {

// The Lagrange multipliers, in ticks; prices in 2^-20 ticks per byte. `worth` and `copy` at index k
// are of cut k + 1, the end of segment k: the segment earns them where it leaves a value so, and
// the segment after it pays them.
struct Multipliers {
  std::vector<int64_t> price;                          // by cut, from 0
  std::vector<IdVector<SchedValueId, int64_t>> worth;  // to be there
  std::vector<IdVector<SchedValueId, int64_t>> copy;   // to have a copy, beyond what a store costs
  IdVector<SchedOpId, int64_t> credit;  // of a run in whichever segment: each op must run in one
  LinkShares shares;
};

// How far the cheapest choice misses each constraint; positive: violated. What to raise. Of shares:
// ticks of transfers beyond those of ops.
struct Violations {
  std::vector<double> price;  // bytes
  std::vector<IdVector<SchedValueId, float>> worth, copy;
  IdVector<SchedOpId, float> credit;
  std::vector<double> store, load;
};

class MultiCutNetwork {
 public:
  // Borrows `graph`. Each op a descendant of the one before.
  MultiCutNetwork(const StepGraph& graph, std::vector<SchedOpId> cuts);

  size_t cuts() const { return at_.cuts.size(); }
  SchedOpId cut(size_t i) const { return at_.cuts[i]; }
  // Nothing is worth anything but ops, the least that they cost; with these shares, or none.
  Multipliers start() const { return start(no_shares()); }
  Multipliers start(LinkShares shares) const;
  LinkShares no_shares() const;
  // What an op is worth if nothing else is said.
  int64_t least_cost(SchedOpId op, const LinkShares& shares) const;
  // Whether the multiplier means anything.
  bool has_worth(size_t segment, SchedValueId value) const {
    return segment < at_.cuts.size() &&
           at_.first[graph_.problem->values[value].producer] <= segment;
  }
  bool has_credit(SchedOpId op) const { return at_.undecided(op); }
  // The bound beyond each op once, in ticks.
  int64_t solve(const Multipliers& m, Violations& violations);
  int64_t work() const { return work_; }

 private:
  // A value in the segment at hand: its terms, and how its network says which way it takes.
  struct Value {
    ValueTerms terms;
    int64_t idle = 0;            // if its maker does not run and nobody needs it
    bool always_needed = false;  // that costs nothing more
  };

  __int128 solve_segment(size_t k, const Multipliers& m, Violations& violations);
  ValueTerms terms_of(SchedValueId v, size_t k, const Multipliers& m) const;
  LoadWay load_of(SchedValueId v, size_t k, const Multipliers& m) const;
  __int128 find_values(size_t k, const Multipliers& m);
  __int128 add_ops(MaxFlow& flow, size_t k, const Multipliers& m) const;
  void add_values(MaxFlow& flow, size_t k);
  __int128 add_residents(const Multipliers& m, Violations& violations) const;
  void find_violations(const MaxFlow& flow, size_t k, const Multipliers& m,
                       Violations& violations) const;
  void find_link_violations(const ValueWay& way, SchedValueId v, size_t k, const Multipliers& m,
                            Violations& violations) const;
  void count_op(SchedOpId op, size_t k, const Multipliers& m, Violations& violations) const;
  int64_t cost(SchedOpId op, size_t k, const LinkShares& shares) const;
  size_t op_node(SchedOpId op) const { return size_t{2} + op.index(); }
  size_t value_node(SchedValueId v) const { return 2 + graph_.size() + v.index(); }
  void find_residents();

  const StepGraph& graph_;
  const CutSegments at_;
  IdVector<SchedValueId, LinkTicks> link_;
  std::vector<ResidentTerms> residents_;
  IdVector<SchedValueId, Value> now_;  // scratch: in the segment at hand
  int64_t work_ = 0;
};

}  // namespace lowtide::remat
