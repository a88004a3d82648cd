#include "remat/search/sequence_state.h"

#include <algorithm>

#include "base/check.h"

namespace lowtide::remat {
SequenceState::SequenceState(const ActionTable& table, std::span<const int> sequence)
    : table_(&table), timeline_(1, table.capacity()) {
  assign(sequence);
}

// From the beginning: every node is appended with its memory found by two passes.
void SequenceState::assign(std::span<const int> sequence) {
  earlier_work_ += timeline_.work();
  timeline_ = Timeline(static_cast<int>(sequence.size()) + 2, table_->capacity());
  cost_ = 0;
  action_.clear();
  ending_.clear();
  credit_.clear();
  free_nodes_.clear();
  recheck_.clear();
  log_.clear();
  runs_.assign(index_of(table_->actions()), {});
  uses_.assign(index_of(table_->values()), {});
  begin_node_ = new_node(table_->begin());
  timeline_.append(begin_node_);
  runs_[index_of(table_->begin())].push_back(begin_node_);
  int last = begin_node_;
  for (const int action : sequence) {
    const int node = new_node(action);
    place(node, action, last);
    last = node;
  }
  end_node_ = new_node(table_->end());
  place(end_node_, table_->end(), last);
}

std::vector<int> SequenceState::sequence() const {
  std::vector<int> actions;
  actions.reserve(index_of(timeline_.size()));
  for (int node = timeline_.next(begin_node_); node != end_node_; node = timeline_.next(node))
    actions.push_back(action(node));
  return actions;
}

int SequenceState::new_node(int action) {
  if (!free_nodes_.empty()) {
    const int node = free_nodes_.back();
    free_nodes_.pop_back();
    action_[index_of(node)] = action;
    return node;
  }
  action_.push_back(action);
  ending_.push_back(0);
  credit_.push_back(0);
  return static_cast<int>(action_.size()) - 1;
}

size_t SequenceState::use_from(int value, int node) const {
  const auto& list = uses_[index_of(value)];
  const int slot = timeline_.slot(node);
  if (list.size() <= 8) {
    size_t i = 0;
    while (i < list.size() && timeline_.slot(list[i].node) < slot) ++i;
    return i;
  }
  const auto found = std::lower_bound(list.begin(), list.end(), slot, [this](Use use, int s) {
    return timeline_.slot(use.node) < s;
  });
  return static_cast<size_t>(found - list.begin());
}

bool SequenceState::alive_before(int value, int node) const {
  const auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  return i > 0 && i < list.size() && !list[i].birth;
}

bool SequenceState::ends_at(int value, int node) const {
  const auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  return i + 1 == list.size() || list[i + 1].birth;
}

double SequenceState::credit_of(int node) const {
  const auto pairs = table_->pairs(action(node));
  uint64_t taken = 0;  // the pairs of an op are few; later ones than 64 are not looked at
  double credit = 0;
  for (size_t k = 0; k < std::min<size_t>(pairs.size(), 64); ++k) {
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

void SequenceState::recheck_pairs() {
  for (const int node : recheck_) {
    if (timeline_.slot(node) < 0) continue;
    const double credit = credit_of(node);
    const double change = credit_[index_of(node)] - credit;
    credit_[index_of(node)] = credit;
    timeline_.add(timeline_.slot(node), timeline_.slot(node), change);
  }
  recheck_.clear();
}

bool SequenceState::can_insert(int action, int previous) const {
  const int slot = timeline_.slot(previous);
  if (previous == end_node_) return false;
  for (const int v : table_->reads(action)) {
    const auto& list = uses_[index_of(v)];
    if (list.empty() || timeline_.slot(list.front().node) > slot) return false;
  }
  for (const int before : table_->before(action))
    if (timeline_.slot(runs_[index_of(before)].back()) > slot) return false;
  for (const int after : table_->after(action))
    if (timeline_.slot(runs_[index_of(after)].front()) <= slot) return false;
  return true;
}

bool SequenceState::can_remove(int node) const {
  const int a = action(node);
  if (runs_[index_of(a)].size() < 2) return false;
  if (runs_[index_of(a)].front() != node) return true;
  for (const int v : table_->makes(a)) {
    const auto& list = uses_[index_of(v)];
    if (list.size() > 1 && !list[1].birth) return false;
  }
  return true;
}

bool SequenceState::is_useful(int node) const {
  for (const int v : table_->makes(action(node)))
    if (!ends_at(v, node)) return true;
  return false;
}

int SequenceState::insert_after(int previous, int action) {
  const int node = new_node(action);
  place(node, action, previous);
  log_.push_back({true, node, action, previous});
  return node;
}

void SequenceState::remove(int node) {
  log_.push_back({false, node, action(node), timeline_.previous(node)});
  take(node);
}

void SequenceState::undo_to(size_t mark) {
  while (log_.size() > mark) {
    const Edit edit = log_.back();
    log_.pop_back();
    if (edit.inserted) {
      take(edit.node);
    } else {
      const int node = new_node(edit.action);
      LT_CHECK(node == edit.node, "undo takes nodes back in the order in which they went");
      place(node, edit.action, edit.previous);
    }
  }
}

void SequenceState::place(int node, int action, int previous) {
  ++edits_;
  const double crossing = timeline_.bytes(previous) + credit_[index_of(previous)] -
                          table_->workspace(action_[index_of(previous)]) -
                          ending_[index_of(previous)];
  timeline_.insert_after(previous, node);
  const int slot = timeline_.slot(node);
  timeline_.add(slot, slot, crossing + table_->workspace(action));
  ending_[index_of(node)] = 0;
  credit_[index_of(node)] = 0;
  cost_ += table_->cost(action);
  auto& runs = runs_[index_of(action)];
  auto place_in_runs = runs.end();
  while (place_in_runs != runs.begin() && timeline_.before(node, *(place_in_runs - 1)))
    --place_in_runs;
  runs.insert(place_in_runs, node);
  for (const int v : table_->reads(action)) add_read(v, node);
  for (const int v : table_->makes(action)) add_birth(v, node);
  if (!table_->pairs(action).empty()) recheck_.push_back(node);
  recheck_pairs();
}

void SequenceState::take(int node) {
  ++edits_;
  const int a = action(node);
  for (const int v : table_->makes(a)) remove_birth(v, node);
  for (const int v : table_->reads(a)) remove_read(v, node);
  cost_ -= table_->cost(a);
  auto& runs = runs_[index_of(a)];
  runs.erase(std::find(runs.begin(), runs.end(), node));
  timeline_.remove(node);
  free_nodes_.push_back(node);
  recheck_pairs();
}

void SequenceState::add_read(int value, int node) {
  auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  LT_DCHECK(i > 0, "a value is used after its first birth");
  if (i == list.size() || list[i].birth) {
    const int end = list[i - 1].node;
    const double bytes = table_->bytes(value);
    timeline_.add(timeline_.slot(end) + 1, timeline_.slot(node), bytes);
    ending_[index_of(end)] -= bytes;
    ending_[index_of(node)] += bytes;
    if (!table_->pairs(action(end)).empty()) recheck_.push_back(end);
  }
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), {node, false});
}

void SequenceState::add_birth(int value, int node) {
  auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  const double bytes = table_->bytes(value);
  if (i < list.size() && !list[i].birth) {
    if (i > 0) {
      const int end = list[i - 1].node;
      timeline_.add(timeline_.slot(end) + 1, timeline_.slot(node) - 1, -bytes);
      ending_[index_of(end)] += bytes;
      if (!table_->pairs(action(end)).empty()) recheck_.push_back(end);
    }
  } else {
    timeline_.add(timeline_.slot(node), timeline_.slot(node), bytes);
    ending_[index_of(node)] += bytes;
  }
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), {node, true});
}

void SequenceState::remove_read(int value, int node) {
  auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  if (i + 1 == list.size() || list[i + 1].birth) {
    const int end = list[i - 1].node;
    const double bytes = table_->bytes(value);
    timeline_.add(timeline_.slot(end) + 1, timeline_.slot(node), -bytes);
    ending_[index_of(end)] += bytes;
    ending_[index_of(node)] -= bytes;
    if (!table_->pairs(action(end)).empty()) recheck_.push_back(end);
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
}

void SequenceState::remove_birth(int value, int node) {
  auto& list = uses_[index_of(value)];
  const size_t i = use_from(value, node);
  const double bytes = table_->bytes(value);
  if (i + 1 < list.size() && !list[i + 1].birth) {
    LT_DCHECK(i > 0, "the first birth of a value that is used stays");
    const int end = list[i - 1].node;
    timeline_.add(timeline_.slot(end) + 1, timeline_.slot(node) - 1, bytes);
    ending_[index_of(end)] -= bytes;
    if (!table_->pairs(action(end)).empty()) recheck_.push_back(end);
  } else {
    timeline_.add(timeline_.slot(node), timeline_.slot(node), -bytes);
    ending_[index_of(node)] -= bytes;
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace lowtide::remat
