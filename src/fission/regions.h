// Regions worth parts of their own: the candidates of MAGIS's F-Tree (section 4.3, algorithm 1).
//
// A region is what an op of the class, its head, dominates (labels.h). It is worth the bytes of the
// hot spot that it makes, what is in memory at the peak: in two parts half of them are gone; less
// what its ops read from outside and would otherwise be gone by then. Between none and the best
// worth lie `levels` steps; of each but the lowest, those are candidates that contain no other one
// of it.
//
// Tests: tests/regions_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/schedule_view.h"
#include "fission/classes.h"
#include "ir/graph.h"
#include "plan/schedule_problem.h"

namespace lowtide::fission {

struct Region {
  ir::OpId head;
  std::vector<ir::OpId> ops;  // ascending
  int64_t worth_bytes = 0;    // > 0
};

// `view` is of `graph`; `order` runs each op of its problem once. The largest first. Error: as
// plan::simulate.
Result<std::vector<Region>> find_regions(const ir::Graph& graph, const AxisClass& axis_class,
                                         const analysis::ScheduleView& view,
                                         const std::vector<plan::SchedOpId>& order, int levels);

}  // namespace lowtide::fission
