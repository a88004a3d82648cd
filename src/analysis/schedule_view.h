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
// In-place pairs come from the op table, as far as the graph allows them: the dying input must fill
// its whole storage, no value of that storage may be an output of the step, the op must not read
// the storage through a second operand, and the storage must not be a piece.
#pragma once

#include <cstdint>
#include <span>
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

struct ScheduleView {
  plan::ScheduleProblem problem;
  IdVector<plan::SchedOpId, ir::OpId> op;                   // problem op -> graph op
  IdVector<plan::SchedValueId, ir::StorageId> storage;      // problem value -> storage
  IdVector<plan::SchedResidentId, ir::StorageId> resident;  // those that may move -> storage
  IdVector<ir::OpId, plan::SchedOpId> sched_op;             // none for ops that only make views
  std::vector<Whole> wholes;
};

// All dims must be constant. Sizes are rounded up to `alignment_bytes`. `links`, in order of
// preference, go into the problem and make residents movable. Error: kInput, naming the value whose
// size is symbolic or the sum that is too large.
Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes,
                                        std::span<const plan::Link> links = {});

// True when all outputs of the op are views: nothing is computed.
bool is_view_op(const ir::Graph& graph, ir::OpId op);

// The op that makes this version of the value's storage: views are looked through. None for what is
// there before the step.
ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value);

}  // namespace lowtide::analysis
