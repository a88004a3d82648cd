// The minimum cuts behind remat/multi_cut.h: one per segment, for given prices and multipliers.
#pragma once

#include <cstdint>
#include <vector>

#include "order/max_flow.h"
#include "remat/closure_cut_network.h"

namespace lowtide::remat {

// In ticks; prices in 2^-20 ticks per byte. `worth[k]` is for (b) between cut k and k + 1.
struct Multipliers {
  std::vector<int64_t> price;  // by cut, from 0
  std::vector<IdVector<SchedValueId, int64_t>> worth;
  IdVector<SchedOpId, int64_t> credit;
};

// How far the cheapest choice misses each constraint; positive: violated. What to raise.
struct Violations {
  std::vector<double> price;  // bytes
  std::vector<IdVector<SchedValueId, float>> worth;
  IdVector<SchedOpId, float> credit;
};

class MultiCutNetwork {
 public:
  // Borrows `graph`. Each op a descendant of the one before.
  MultiCutNetwork(const StepGraph& graph, std::vector<SchedOpId> cuts);

  size_t cuts() const { return cuts_.size(); }
  SchedOpId cut(size_t i) const { return cuts_[i]; }
  // All zero, and each op worth its time: what one cut needs.
  Multipliers start() const;
  // Whether the multiplier means anything.
  bool has_worth(size_t segment, SchedValueId value) const {
    return segment < cuts_.size() && first_[graph_.problem->values[value].producer] <= segment;
  }
  bool has_credit(SchedOpId op) const { return first_[op] < latest_[op]; }
  // The bound beyond each op once, in ticks.
  int64_t solve(const Multipliers& m, Violations& violations);
  int64_t work() const { return work_; }

 private:
  enum class Stay : char { kNo, kYes, kCut };

  int64_t solve_segment(size_t k, const Multipliers& m, Violations& violations);
  int64_t add_ops(order::MaxFlow& flow, size_t k, const Multipliers& m) const;
  int64_t add_values(order::MaxFlow& flow, size_t k, const Multipliers& m,
                     IdVector<SchedValueId, Stay>& stay) const;
  void find_violations(const order::MaxFlow& flow, size_t k,
                       const IdVector<SchedValueId, Stay>& stay, Violations& violations) const;
  size_t op_node(SchedOpId op) const { return size_t{2} + op.index(); }
  size_t value_node(SchedValueId v) const { return 2 + graph_.size() + v.index(); }
  bool forced(SchedOpId op, size_t k) const { return first_[op] == k && latest_[op] == k; }
  bool may_run(SchedOpId op, size_t k) const { return first_[op] <= k && k <= last_[op]; }
  void find_segments();
  void find_cut_bytes(size_t cut);

  const StepGraph& graph_;
  const std::vector<SchedOpId> cuts_;
  IdVector<SchedOpId, size_t> first_, latest_, last_;
  std::vector<int64_t> capacity_;                            // by cut, from 0
  std::vector<IdVector<SchedValueId, int64_t>> stay_bytes_;  // by cut, from 0
  std::vector<IdVector<SchedValueId, char>> is_input_;       // by cut, from 0
  int64_t work_ = 0;
};

}  // namespace lowtide::remat
