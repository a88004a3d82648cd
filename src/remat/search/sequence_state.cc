#include "remat/search/sequence_state.h"

#include <algorithm>

#include "base/check.h"

namespace lowtide::remat {
SequenceState::SequenceState(const ActionTable& table, std::span<const SchedOpId> sequence)
    : table_(&table), timeline_(1, table.capacity()) {
  assign(sequence);
}

// From the beginning: every node is appended with its memory found by two passes.
void SequenceState::assign(std::span<const SchedOpId> sequence) {
  earlier_work_ += timeline_.work();
  timeline_ = Timeline(static_cast<int>(sequence.size()) + 2, table_->capacity());
  cost_ = 0;
  action_ = {};
  ending_ = {};
  credit_ = {};
  free_nodes_.clear();
  recheck_.clear();
  forget_log();
  reserve(sequence);
  begin_node_ = new_node(table_->begin());
  timeline_.append(begin_node_);
  runs_.push_back(table_->begin(), begin_node_);
  NodeId last = begin_node_;
  for (const SchedOpId action : sequence) {
    const NodeId node = new_node(action);
    place(node, action, last);
    last = node;
  }
  end_node_ = new_node(table_->end());
  place(end_node_, table_->end(), last);
  forget_log();
}

// Memory for each list at once, with room for a rerun.
void SequenceState::reserve(std::span<const SchedOpId> sequence) {
  IdVector<SchedOpId, uint32_t> runs(table_->op_count() + 2, 1);
  IdVector<SchedValueId, uint32_t> uses(table_->value_count(), 2);
  const auto count = [&](SchedOpId action) {
    ++runs[action];
    for (const SchedValueId v : table_->reads(action)) ++uses[v];
    for (const SchedValueId v : table_->makes(action)) ++uses[v];
  };
  for (const SchedOpId action : sequence) count(action);
  count(table_->begin());
  count(table_->end());
  runs_ = PooledLists<SchedOpId, NodeId>(runs);
  uses_ = PooledLists<SchedValueId, Use>(uses);
  action_.reserve(sequence.size() + 2);
  ending_.reserve(sequence.size() + 2);
  credit_.reserve(sequence.size() + 2);
}

std::vector<SchedOpId> SequenceState::sequence() const {
  std::vector<SchedOpId> actions;
  actions.reserve(static_cast<size_t>(timeline_.size()));
  for (NodeId node = timeline_.next(begin_node_); node != end_node_; node = timeline_.next(node))
    actions.push_back(action(node));
  return actions;
}

NodeId SequenceState::new_node(SchedOpId action) {
  if (!free_nodes_.empty()) {
    const NodeId node = free_nodes_.back();
    free_nodes_.pop_back();
    action_[node] = action;
    return node;
  }
  ending_.push_back(0);
  credit_.push_back(0);
  return action_.push_back(action);
}

size_t SequenceState::use_from(SchedValueId value, NodeId node) const {
  const auto list = uses_[value];
  const SlotId slot = timeline_.slot(node);
  if (list.size() <= 8) {
    size_t i = 0;
    while (i < list.size() && timeline_.slot(list[i].node) < slot) ++i;
    return i;
  }
  const auto found = std::lower_bound(list.begin(), list.end(), slot, [this](Use use, SlotId s) {
    return timeline_.slot(use.node) < s;
  });
  return static_cast<size_t>(found - list.begin());
}

bool SequenceState::alive_before(SchedValueId value, NodeId node) const {
  const auto list = uses_[value];
  const size_t i = use_from(value, node);
  return i > 0 && i < list.size() && !list[i].birth;
}

bool SequenceState::ends_at(SchedValueId value, NodeId node) const {
  const auto list = uses_[value];
  const size_t i = use_from(value, node);
  return i + 1 == list.size() || list[i + 1].birth;
}

double SequenceState::credit_of(NodeId node) const {
  const auto pairs = table_->pairs(action(node));
  uint64_t taken = 0;
  double credit = 0;
  for (size_t k = 0; k < std::min(pairs.size(), kMostPairs); ++k) {
    bool free = ends_at(pairs[k].input, node);
    for (size_t j = 0; j < k; ++j)
      if ((taken >> j & 1) != 0)
        free &= pairs[j].input != pairs[k].input && pairs[j].output != pairs[k].output;
    if (!free) continue;
    taken |= uint64_t{1} << k;
    credit += table_->bytes(pairs[k].input);
  }
  return credit;
}

// An instance of the value ends at the node, or does so no longer: what is reused there may change,
// if the node's op can take over the value's bytes at all.
void SequenceState::note_end(NodeId node, SchedValueId value) {
  for (const ActionTable::Pair& pair : table_->pairs(action(node)))
    if (pair.input == value) return recheck_.push_back(node);
}

void SequenceState::recheck_pairs() {
  for (const NodeId node : recheck_) {
    if (!timeline_.slot(node).valid()) continue;
    const double credit = credit_of(node);
    const double change = credit_[node] - credit;
    credit_[node] = credit;
    timeline_.add_at(node, change);
  }
  recheck_.clear();
}

bool SequenceState::can_insert(SchedOpId action, NodeId previous) const {
  const SlotId slot = timeline_.slot(previous);
  if (previous == end_node_) return false;
  for (const SchedValueId v : table_->reads(action)) {
    const auto list = uses_[v];
    if (list.empty() || timeline_.slot(list.front().node) > slot) return false;
  }
  for (const SchedOpId before : table_->before(action))
    if (timeline_.slot(runs_[before].back()) > slot) return false;
  for (const SchedOpId after : table_->after(action))
    if (timeline_.slot(runs_[after].front()) <= slot) return false;
  return true;
}

bool SequenceState::can_remove(NodeId node) const {
  const SchedOpId a = action(node);
  if (runs_[a].size() < 2) return false;
  if (runs_[a].front() != node) return true;
  for (const SchedValueId v : table_->makes(a)) {
    const auto list = uses_[v];
    if (list.size() > 1 && !list[1].birth) return false;
  }
  return true;
}

bool SequenceState::is_useful(NodeId node) const {
  for (const SchedValueId v : table_->makes(action(node)))
    if (!ends_at(v, node)) return true;
  return false;
}

NodeId SequenceState::insert_after(NodeId previous, SchedOpId action) {
  const NodeId node = new_node(action);
  place(node, action, previous);
  log_.push_back({true, node, previous, action});
  return node;
}

void SequenceState::remove(NodeId node) {
  const SchedOpId a = action(node);
  log_.push_back({false, node, timeline_.previous(node), a});
  for (const SchedValueId v : table_->reads(a)) note_place(use_from(v, node));
  for (const SchedValueId v : table_->makes(a)) note_place(use_from(v, node));
  take(node);
}

void SequenceState::undo_to(size_t mark) {
  while (log_.size() > mark) {
    const Edit edit = log_.back();
    log_.pop_back();
    if (edit.inserted) {
      take(edit.node);
    } else {
      const NodeId node = new_node(edit.action);
      LT_CHECK(node == edit.node, "undo takes nodes back in the order in which they went");
      place(node, edit.action, edit.previous);
      forget_places(edit.action);
    }
  }
}

void SequenceState::place(NodeId node, SchedOpId action, NodeId previous) {
  ++edits_;
  // What crosses from `previous`, and its own workspace.
  timeline_.insert_beside(previous, node,
                          credit_[previous] - table_->workspace(action_[previous]) -
                              ending_[previous] + table_->workspace(action));
  ending_[node] = 0;
  credit_[node] = 0;
  cost_ += table_->cost(action);
  const auto runs = runs_[action];
  size_t place_in_runs = runs.size();
  while (place_in_runs > 0 && timeline_.before(node, runs[place_in_runs - 1])) --place_in_runs;
  runs_.insert(action, place_in_runs, node);
  for (const SchedValueId v : table_->reads(action)) note_place(add_read(v, node));
  for (const SchedValueId v : table_->makes(action)) note_place(add_birth(v, node));
  if (!table_->pairs(action).empty()) recheck_.push_back(node);
  recheck_pairs();
}

void SequenceState::forget_places(SchedOpId action) {
  places_.resize(places_.size() - table_->reads(action).size() - table_->makes(action).size());
}

// By its places, which are the last ones noted.
void SequenceState::take(NodeId node) {
  ++edits_;
  const SchedOpId a = action(node);
  const auto reads = table_->reads(a), makes = table_->makes(a);
  const uint32_t* places = places_.data() + places_.size() - reads.size() - makes.size();
  for (size_t k = 0; k < makes.size(); ++k) remove_birth(makes[k], node, places[reads.size() + k]);
  for (size_t k = 0; k < reads.size(); ++k) remove_read(reads[k], node, places[k]);
  forget_places(a);
  cost_ -= table_->cost(a);
  const auto runs = runs_[a];
  runs_.erase(a, static_cast<size_t>(std::find(runs.begin(), runs.end(), node) - runs.begin()));
  timeline_.remove(node);
  free_nodes_.push_back(node);
  recheck_pairs();
}

size_t SequenceState::add_read(SchedValueId value, NodeId node) {
  const auto list = uses_[value];
  const size_t i = use_from(value, node);
  LT_DCHECK(i > 0, "a value is used after its first birth");
  if (i == list.size() || list[i].birth) {
    const NodeId end = list[i - 1].node;
    const double bytes = table_->bytes(value);
    timeline_.add_after(end, node, bytes);
    ending_[end] -= bytes;
    ending_[node] += bytes;
    note_end(end, value);
  }
  uses_.insert(value, i, {node, false});
  return i;
}

size_t SequenceState::add_birth(SchedValueId value, NodeId node) {
  const auto list = uses_[value];
  const size_t i = use_from(value, node);
  const double bytes = table_->bytes(value);
  if (i < list.size() && !list[i].birth) {
    if (i > 0) {
      const NodeId end = list[i - 1].node;
      timeline_.add_between(end, node, -bytes);
      ending_[end] += bytes;
      note_end(end, value);
    }
  } else {
    timeline_.add_at(node, bytes);
    ending_[node] += bytes;
  }
  uses_.insert(value, i, {node, true});
  return i;
}

void SequenceState::remove_read(SchedValueId value, NodeId node, size_t i) {
  const auto list = uses_[value];
  if (i + 1 == list.size() || list[i + 1].birth) {
    const NodeId end = list[i - 1].node;
    const double bytes = table_->bytes(value);
    timeline_.add_after(end, node, -bytes);
    ending_[end] += bytes;
    ending_[node] -= bytes;
    note_end(end, value);
  }
  uses_.erase(value, i);
}

void SequenceState::remove_birth(SchedValueId value, NodeId node, size_t i) {
  const auto list = uses_[value];
  const double bytes = table_->bytes(value);
  if (i + 1 < list.size() && !list[i + 1].birth) {
    LT_DCHECK(i > 0, "the first birth of a value that is used stays");
    const NodeId end = list[i - 1].node;
    timeline_.add_between(end, node, bytes);
    ending_[end] -= bytes;
    note_end(end, value);
  } else {
    timeline_.add_at(node, -bytes);
    ending_[node] -= bytes;
  }
  uses_.erase(value, i);
}

}  // namespace lowtide::remat
