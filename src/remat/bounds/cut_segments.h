// Earliest and latest places (the longest-path bounds of scheduling) of runs and stays among the
// segments of a multi-cut, which is a bound of our own: where ops may run and what may stay, seen
// from several cuts, by who comes before whom.
//
// Ops t_1, ..., t_K, each a descendant of the one before, cut every schedule at their first runs
// into segments: 0 before t_1, and k from t_k's first run on, up to t_{k+1}'s. For each op the
// segment of its first run is known up to an interval, and so is the last in which it can run.
//
// Tests: multi_cut_test.cc, branch_cut_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "remat/bounds/step_graph.h"

namespace lowtide::remat {

// The cuts and `op` in order, or nothing if they are no multi-cut.
std::optional<std::vector<SchedOpId>> multi_cut_with(const StepGraph& graph,
                                                     std::vector<SchedOpId> cuts, SchedOpId op);

struct CutSegments {
  // Borrows `graph`, whose problem has a budget. Each op a descendant of the one before.
  CutSegments(const StepGraph& graph, std::vector<SchedOpId> cuts);

  size_t size() const { return cuts.size(); }
  // Is this the segment of the first run, whatever the schedule?
  bool forced(SchedOpId op, size_t k) const { return first[op] == k && latest[op] == k; }
  bool may_run(SchedOpId op, size_t k) const { return first[op] <= k && k <= last[op]; }
  bool undecided(SchedOpId op) const { return first[op] < latest[op]; }

  const StepGraph* graph;
  std::vector<SchedOpId> cuts;
  IdVector<SchedOpId, size_t> first, latest;  // segments of the first run
  IdVector<SchedOpId, size_t> last;           // segment of any run
  // By cut, from 0, in bytes: the budget less what is present with the op anyway, and what a value
  // that stays takes of it (an input of the op nothing, unless the op could reuse its buffer).
  std::vector<int64_t> capacity;
  std::vector<IdVector<SchedValueId, int64_t>> stay_bytes;
  std::vector<IdVector<SchedValueId, char>> is_input;
};

}  // namespace lowtide::remat
