// Incremental evaluation (delta evaluation) of a schedule under change, as local search needs it,
// in a structure of our own. The state is the sequence of actions and nothing else; which instance
// of which value lives where, the bytes present at every node, the time of all runs and the
// overflow over the capacity follow from it and are kept exact under insertion and removal of
// single nodes, each in time proportional to the nodes whose bytes change (divided by the size of a
// bucket of the timeline).
//
// A value's instance lives from its birth to its last use before the next birth. So
//   inserting a run of the producer before a use drops the value between its last use and that run,
//   inserting a use after the end of an instance lets it live longer,
//   removing a rerun lets the instance before it live on to the uses of the one removed,
// and each of these changes the cover of a value on one stretch of time. Per value its births and
// uses are listed in order of time; the stretch is found from the neighbours in that list. In-place
// pairs are looked at again only at nodes where the end of an instance came or went.
//
// Edits are noted in a log; undo_to() takes them back, last first. Correct sequences only: insert
// and remove demand what can_insert and can_remove say. The rules are those of
// plan/sequence_simulator.h; sequence_state_test.cc holds thousands of edits against it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/search/action_table.h"
#include "remat/search/pooled_lists.h"
#include "remat/search/timeline.h"

namespace lowtide::remat {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SequenceTuning {
  int64_t work_of_edit = 40;  // beside that of the timeline
};
inline constexpr SequenceTuning kSequence;

class SequenceState {
 public:
  // One birth or use of a value, by a node.
  struct Use {
    NodeId node;
    bool birth;
  };

  // `table` is borrowed. `sequence`: runs of ops, correct.
  SequenceState(const ActionTable& table, std::span<const SchedOpId> sequence);

  // Replaces the whole sequence and forgets the log.
  void assign(std::span<const SchedOpId> sequence);
  // The runs, without the borders of the step.
  std::vector<SchedOpId> sequence() const;

  const ActionTable& table() const { return *table_; }
  const Timeline& timeline() const { return timeline_; }
  SchedOpId action(NodeId node) const { return action_[node]; }
  NodeId begin_node() const { return begin_node_; }
  NodeId end_node() const { return end_node_; }
  // Runs of an action, in order of time; never empty. Until the next edit, like uses().
  std::span<const NodeId> runs(SchedOpId action) const { return runs_[action]; }
  // Births and uses of a value, in order of time; the first is a birth.
  std::span<const Use> uses(SchedValueId value) const { return uses_[value]; }
  // Position in uses(value) of the first entry at or after `node`.
  size_t use_from(SchedValueId value, NodeId node) const;
  // Is an instance of the value present right before `node`, to be used at it or later?
  bool alive_before(SchedValueId value, NodeId node) const;

  // Picoseconds of all runs beyond each op once.
  int64_t extra_cost() const { return cost_ - table_->once_cost(); }
  double overflow() const { return timeline_.overflow(); }

  // May a run of `action` stand right after `previous`? Its inputs must have been born by then and
  // control must allow it. (That the op may rerun is the caller's to see: a move is an insertion
  // and a removal.)
  bool can_insert(SchedOpId action, NodeId previous) const;
  // May the node go? Its op must have another run, and nothing may read the first instance it made.
  bool can_remove(NodeId node) const;
  // Does anything use what this run makes?
  bool is_useful(NodeId node) const;

  NodeId insert_after(NodeId previous, SchedOpId action);
  void remove(NodeId node);

  size_t mark() const { return log_.size(); }
  void undo_to(size_t mark);
  void forget_log() {
    log_.clear();
    places_.clear();
  }
  int64_t work() const {
    return earlier_work_ + timeline_.work() + edits_ * kSequence.work_of_edit;
  }
  int64_t edits() const { return edits_; }

 private:
  void reserve(std::span<const SchedOpId> sequence);
  struct Edit {
    bool inserted;
    NodeId node, previous;
    SchedOpId action;
  };
  void place(NodeId node, SchedOpId action, NodeId previous);
  void take(NodeId node);
  // Each returns its position in the list of the value's births and uses, or is told it.
  size_t add_read(SchedValueId value, NodeId node);
  size_t add_birth(SchedValueId value, NodeId node);
  void remove_read(SchedValueId value, NodeId node, size_t i);
  void remove_birth(SchedValueId value, NodeId node, size_t i);
  void note_place(size_t i) { places_.push_back(static_cast<uint32_t>(i)); }
  void forget_places(SchedOpId action);
  bool ends_at(SchedValueId value, NodeId node) const;
  double credit_of(NodeId node) const;
  void note_end(NodeId node, SchedValueId value);
  void recheck_pairs();
  NodeId new_node(SchedOpId action);

  const ActionTable* table_;
  Timeline timeline_;
  NodeId begin_node_, end_node_;
  int64_t cost_ = 0;
  int64_t edits_ = 0;
  int64_t earlier_work_ = 0;  // of timelines before the last assign
  IdVector<NodeId, SchedOpId> action_;
  IdVector<NodeId, double> ending_;  // bytes of instances that end there
  IdVector<NodeId, double> credit_;  // reused in place
  std::vector<NodeId> free_nodes_;
  PooledLists<SchedOpId, NodeId> runs_;
  PooledLists<SchedValueId, Use> uses_;
  std::vector<NodeId> recheck_;  // whose pairs may have changed
  std::vector<Edit> log_;
  // Of each inserted node of the log, its positions in the lists of the values that it reads, then
  // of those that it makes: when it is taken back, the lists are as they were.
  std::vector<uint32_t> places_;
};

}  // namespace lowtide::remat
