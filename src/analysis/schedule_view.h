// From a Graph to the ordering question about it.
//
// Values of the ScheduleProblem are storages that an op makes; storages that are there before the
// step are resident. Ops whose outputs are all views disappear: a view runs with whatever made its
// base. What remains of data flow through storages that are overwritten becomes control edges:
// every reader of an old version before the op that overwrites it (anti-dependence), that op before
// every reader of the new version. In-place pairs come from the op table, as far as the graph
// allows them: the dying input must fill its whole storage, no value of that storage may be an
// output of the step, and the op must not read the storage through a second operand.
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "ir/graph.h"
#include "plan/schedule_problem.h"

namespace lowtide::analysis {

// What the problem needs to know of each op beyond the graph.
struct OpCosts {
  IdVector<ir::OpId, double> seconds;           // of one run
  IdVector<ir::OpId, int64_t> workspace_bytes;  // unaligned
};

struct ScheduleView {
  plan::ScheduleProblem problem;
  IdVector<plan::SchedOpId, ir::OpId> op;               // problem op -> graph op
  IdVector<plan::SchedValueId, ir::StorageId> storage;  // problem value -> storage
  IdVector<ir::OpId, plan::SchedOpId> sched_op;         // none for ops that only make views
};

// All dims must be constant (ir::bind first). Sizes are rounded up to `alignment_bytes`. Error:
// kInput, naming the value whose size is symbolic or the sum that is too large.
Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes);

// True when all outputs of the op are views: nothing is computed.
bool is_view_op(const ir::Graph& graph, ir::OpId op);

// The op that makes this version of the value's storage: views are looked through. None for what is
// there before the step.
ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value);

}  // namespace lowtide::analysis
