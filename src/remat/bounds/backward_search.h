// A floor that also sees how the operands of an op come to be there together: backward search
// (regression, as planning has it) over sets of values.
//
// Take any schedule that moves nothing, and a run of some op in it, the goal. Its operands are
// there when it begins. Of all runs before, the last one that made any of them had the others
// beside it, and its own operands in place of what it made. So every schedule, read backwards,
// walks from set to set of values until nothing more is needed, and its peak is at least what the
// fullest run on the way has in memory: operands, results, workspace, the rest of the set,
// residents, less what may be reused in place. The least over all ways is a bottleneck shortest
// path, found by Dijkstra's algorithm with the largest in place of the sum. (It is the pebble game
// of register allocation, Sethi 1975, played backwards; to solve that whole would take forever.)
//
// Two relaxations keep the sets few. Only runs that the goal needs count: what else runs or waits
// is left out. So are values smaller than `least_bytes`: a set has the large ones only. Both only
// lower the bound. Where the work ends early, the bound is the lowest peak of the sets that are
// still to be looked at: every way leads through one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/work.h"
#include "remat/bounds/step_graph.h"

namespace lowtide::remat {

struct BackwardFloor {
  int64_t bytes = 0;        // of the whole device
  int64_t least_bytes = 0;  // smaller values were left out
  SchedOpId goal;
  // On the way of the least bytes, the fullest run and what waits beside it.
  SchedOpId op;
  std::vector<SchedValueId> waiting;  // ascending; neither read nor made by the op
};

inline constexpr int64_t kUnitsPerSet = 200;  // that is looked at

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct BackwardTuning {
  int64_t most_sets = 60'000;  // a tenth of a second at most, whatever the planner may take
  int sizes = 4;           // that smaller values are left out below: from half of the largest down
  int64_t goal_share = 4;  // of the sets of a size: the part of them for one goal
};
inline constexpr BackwardTuning kBackward;

// A floor above `above`, if a goal and sizes are found that show one. `graph` has no link.
std::optional<BackwardFloor> backward_floor(const StepGraph& graph, int64_t above,
                                            const Limits& limits = {
                                                .max_units = kBackward.most_sets * kUnitsPerSet});

// One search. Nothing if some way stays within `above`, or the work ends before that is known.
std::optional<BackwardFloor> backward_floor_of(const StepGraph& graph, SchedOpId goal,
                                               int64_t least_bytes, int64_t above,
                                               WorkBudget& work);

}  // namespace lowtide::remat
