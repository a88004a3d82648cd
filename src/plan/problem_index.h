// A ScheduleProblem as index lists. The problem lists values, with who makes and reads each;
// whoever searches, bounds or simulates asks what an op reads, makes and waits for, many million
// times. So its lists are turned around once, here, for all of them; what one algorithm wants
// beyond that it keeps on top (remat/bounds/step_graph.h, remat/search/action_table.h).
// The parts into which orders fall have lists of their own, of fewer things and by other numbers
// (order/order_graph.h).
//
// Two ids after those of the ops stand for the borders of the step: `begin`, before everything, and
// `end`, which reads every output of the step, so that outputs stay without a rule of their own.
//
// Lists are ascending, as far as the problem's are: those of values by id, control edges and
// in-place pairs in the order of the problem. It takes time and memory in proportion to the
// problem. Test: each list against its definition (problem_index_test.cc).
#pragma once

#include <cstddef>

#include "base/lists.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

struct ProblemIndex {
  explicit ProblemIndex(const ScheduleProblem& problem);  // which passed check

  size_t op_count = 0, value_count = 0;
  Lists<SchedOpId, SchedValueId> reads, makes, writes;
  Lists<SchedValueId, SchedOpId> readers;  // `end` last, if it is an output
  // Control alone: ops all of whose runs come before, or after, all of its.
  Lists<SchedOpId, SchedOpId> waits_for, waits_after;
  Lists<SchedOpId, size_t> pairs;  // indices into in_place

  SchedOpId begin() const { return SchedOpId(op_count); }
  SchedOpId end() const { return SchedOpId(op_count + 1); }
  bool is_op(SchedOpId id) const { return id.index() < op_count; }  // no border
  size_t rows() const { return op_count + 2; }                      // of lists by op
};

}  // namespace lowtide::plan
