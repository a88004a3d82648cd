// A step as all bounds read it: a problem as index lists, with who must run before whom, and its
// times in whole ticks, so that what is proven does not rest on rounding. Beside it what of a step
// lies before and behind an op, and products in fixed point.
//
// Invariant: whatever is rounded is rounded so that a bound can only become weaker (times down; who
// needs the other direction says so by name).
//
// Tests: closure_cut_test.cc, floor_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/lists.h"
#include "plan/problem_index.h"
#include "plan/schedule_problem.h"
#include "plan/tick_scale.h"

namespace lowtide::remat {

using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;

// A problem as index lists, with who must run before whom, and its times in ticks.
struct StepGraph : plan::ProblemIndex {
  explicit StepGraph(const plan::ScheduleProblem& p)  // borrowed
      : StepGraph(p, plan::ProblemIndex(p)) {}
  StepGraph(const plan::ScheduleProblem& p, plan::ProblemIndex index);  // of its lists

  size_t size() const { return op_count; }
  // Inputs, outputs and workspace, whatever is reused in place.
  int64_t own_bytes(SchedOpId op) const {
    int64_t bytes = problem->ops[op].workspace_bytes;
    for (SchedValueId v : reads[op]) bytes += problem->values[v].bytes;
    for (SchedValueId v : makes[op]) bytes += problem->values[v].bytes;
    return bytes;
  }
  // What a bound of so many ticks on every schedule says.
  double bound_seconds(int64_t bound_ticks) const {
    double once_seconds = 0;
    for (const plan::SchedOp& op : problem->ops) once_seconds += op.seconds;
    return scale.bound_seconds(bound_ticks, once_seconds, link.has_value());
  }

  // What a network asks of each value: beside each other in memory, as one is made for many ops.
  struct Value {
    int64_t bytes = 0;
    int64_t moved_parts = 1;
    SchedOpId producer;
    bool is_output = false;
  };

  const plan::ScheduleProblem* problem;
  IdVector<SchedValueId, Value> values;
  IdVector<SchedOpId, char> may_rerun;
  std::optional<plan::Link> link;            // all of the problem's in one
  Lists<SchedOpId, SchedOpId> preds, succs;  // by data and control, each once
  plan::TickScale scale;
  IdVector<SchedOpId, int64_t> ticks;
  int64_t once_ticks = 0;  // all ops
};

// Where an op lies as seen from another: what that needs, itself, what needs it, or neither.
enum class Side : uint8_t { kOther, kBefore, kSelf, kAfter };
IdVector<SchedOpId, Side> sides_of(const StepGraph& graph, SchedOpId op);

// Fixed point: one is 2^20.
inline constexpr int64_t kOne = plan::kTickParts;
// x * y / 2^20, rounded down or up; x, y >= 0, at most 2^61.
int64_t scaled_down(int64_t x, int64_t y);
int64_t scaled_up(int64_t x, int64_t y);
// What bytes take on the link, in ticks.
struct LinkTicks {
  int64_t out = 0, in = 0;
  int64_t copy = 0;  // of compute, each way
};
LinkTicks link_ticks(const StepGraph& graph, int64_t bytes);
// What they cost at a cut, in 2^-20 ticks per byte.
int64_t ticks_of_staying(int64_t bytes, int64_t price);

}  // namespace lowtide::remat
