// Dependence analysis: from a Graph to the ordering question about it.
//
// Values of the ScheduleProblem are storages that an op makes; storages that are there before the
// step are resident. Ops whose outputs are all views disappear: a view runs with whatever made its
// base. What remains of data flow through storages that are overwritten becomes control edges:
// every reader of an old version before the op that overwrites it (anti-dependence), that op before
// every reader of the new version. Control edges hold for every run, also the repeated ones, so an
// op that reads an old version can run again until the new one is made, and not after.
//
// What may run again: pure ops, and random ones, which give the same bits on every run of a step
// (ops::Traits::recomputable). Not: ops that overwrite a storage (optimizer updates, running
// statistics), since each run would change it again, nor the op that makes a storage which others
// overwrite (an accumulated gradient). Such storages say who overwrites them (`writers`), so that a
// copy in the slow tier is known to be stale.
//
// With a link, storages that are there before the step may move, too: parameters, optimizer state,
// inputs and constants that an op reads, unless the step returns them as they are.
//
// A whole is no value of the problem, its pieces are: who reads the whole reads all of them. Where
// the pieces lie is the packer's matter (pipeline/buffer_view.h).
//
// A sum in any order (sums.h), where they are asked for, is one value: all versions of it, read and
// overwritten by everybody who contributes, none of whom runs twice. Its buffer appears with
// whichever comes first. The problem knows no such value, but it knows ops: an op of no time and no
// operands *begins* the sum, everybody who contributes comes behind it in any order, and the
// readers of the sum behind all of them. Right before the first contribution it costs nothing, and
// a bound sees the sum from the first contribution on. No op of the graph stands behind it.
//
// In-place pairs come from the op table, as far as the graph allows them: the dying input must fill
// its whole storage, no value of that storage may be an output of the step, the op must not read
// the storage through a second operand, and the storage must not be a piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/sums.h"
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

// A storage made of pieces, and when these must lie at their distances.
struct Whole {
  struct Piece {
    plan::SchedValueId value;
    int64_t offset_bytes = 0;
  };
  ir::StorageId storage;
  std::vector<Piece> pieces;             // by rising offset
  std::vector<plan::SchedOpId> readers;  // while one of them runs,
  bool is_output = false;                // and at the end of the step
};

// A sum as the problem has it.
struct SumInProblem {
  Sum sum;
  plan::SchedValueId value;
  plan::SchedOpId begin;  // none: the first contribution is fixed, and makes the value
  // The ops that contribute and could run again, were it not for the sum.
  std::vector<plan::SchedOpId> pure;
  // The ops that wait only because of the sum: what comes before all contributions for its
  // beginning, readers for contributions.
  std::vector<std::pair<plan::SchedOpId, plan::SchedOpId>> control;
};

struct ScheduleView {
  plan::ScheduleProblem problem;
  IdVector<plan::SchedOpId, ir::OpId> op;  // problem op -> graph op; none: it begins a sum
  IdVector<plan::SchedValueId, ir::StorageId> storage;      // problem value -> storage
  IdVector<plan::SchedResidentId, ir::StorageId> resident;  // those that may move -> storage
  IdVector<ir::OpId, plan::SchedOpId> sched_op;             // none for ops that only make views
  std::vector<Whole> wholes;
  std::vector<SumInProblem> sums;
  // Of ops that contribute to sums: aligned, as ViewOptions::least_workspace_bytes.
  std::vector<std::pair<plan::SchedOpId, int64_t>> least_workspace_bytes;
};

struct ViewOptions {
  std::span<const plan::Link> links = {};  // in order of preference; residents become movable
  std::span<const Sum> sums = {};          // that may come in any order; without pieces among them
  // Unaligned; of ops that contribute to sums, the least they need, whichever of them come first
  // and so have no accumulator. Null: no less than as costs say.
  const IdVector<ir::OpId, int64_t>* least_workspace_bytes = nullptr;
};

// All dims must be constant. Sizes are rounded up to `alignment_bytes`. Error: kInput, naming the
// value whose size is symbolic or the sum that is too large.
Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes, const ViewOptions& options = {});

// What every schedule of the graph's ops must do, whatever the order of its sums and also if each
// sum is a chain whose ops run again: a sum is there from the first contribution, and nobody counts
// who contributed. A first run that has to come before another is said by a value without bytes
// between the two, as control would also forbid reruns. For bounds on bytes; no schedule of it need
// be right.
plan::ScheduleProblem relaxed_sums(const ScheduleView& view);

// The wholes of a graph, where these are the problem's values and ops for its storages and ops. One
// with a piece that the problem does not have is left out.
std::vector<Whole> wholes_in(const ir::Graph& graph,
                             const IdVector<ir::StorageId, plan::SchedValueId>& value,
                             const IdVector<ir::OpId, plan::SchedOpId>& op);

// True when all outputs of the op are views: nothing is computed.
bool is_view_op(const ir::Graph& graph, ir::OpId op);

// The op that makes this version of the value's storage: views are looked through. None for what is
// there before the step.
ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value);

}  // namespace lowtide::analysis
