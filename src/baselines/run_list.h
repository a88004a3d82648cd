// A sequence of actions that a walk changes: a list into which runs and moves are put, and which
// run reads which instance of a value. Positions are numbered anew after each change. Borrows the
// problem.
//
// Tests: xla_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "baselines/baselines.h"
#include "plan/problem_index.h"

namespace lowtide::baselines {

struct NodeTag;
struct InstanceTag;
using NodeId = Id<NodeTag>;
using InstanceId = Id<InstanceTag>;

// An action in the list.
struct Node {
  SchedAction action;
  std::vector<InstanceId> reads, makes;  // of a run, as the op's own lists
  NodeId previous, next;
  int64_t number = 0;                // ascending along the list
  bool denied = false;               // no longer to be changed
  bool is_moved = false;             // a new run that left the old one without use
  double free_out = 0, free_in = 0;  // seconds in which a copy may still be hidden
};

// A value from a run that makes it on; who reads it.
struct Instance {
  SchedValueId value;
  NodeId maker;
  std::vector<NodeId> uses;  // not in order
  bool live = false;         // present where the walk is
  bool away = false;         // in the slow tier there
};

class RunList {
 public:
  explicit RunList(const plan::ScheduleProblem& problem)
      : problem_(problem), index_(problem), instances_of_(problem.values.size()) {
    IdVector<SchedValueId, InstanceId> current(problem.values.size());
    for (const SchedOpId op : problem.ops.ids()) {
      const NodeId node = append(SchedAction::run(op));
      for (const SchedValueId v : index_.reads[op]) read(node, current[v]);
      for (const SchedValueId v : index_.makes[op]) current[v] = make(node, v);
    }
    renumber();
  }

  const plan::ProblemIndex& index() const { return index_; }
  Node& operator[](NodeId id) { return nodes_[id]; }
  Instance& operator[](InstanceId id) { return instances_[id]; }
  NodeId first() const { return first_; }
  size_t size() const { return nodes_.size(); }

  // What a run at that place would read of a value: the last instance that begins before it.
  InstanceId instance_before(SchedValueId value, NodeId place) {
    InstanceId best;
    for (const InstanceId id : instances_of_[value]) {
      if (nodes_[instances_[id].maker].number < nodes_[place].number &&
          (!best.valid() ||
           nodes_[instances_[id].maker].number > nodes_[instances_[best].maker].number))
        best = id;
    }
    return best;
  }

  NodeId insert_before(NodeId place, const SchedAction& action) {
    const NodeId id = add(action);
    Node& node = nodes_[id];
    node.next = place;
    node.previous = nodes_[place].previous;
    (node.previous.valid() ? nodes_[node.previous].next : first_) = id;
    nodes_[place].previous = id;
    renumber();
    return id;
  }
  InstanceId make(NodeId node, SchedValueId value) {
    const InstanceId id = instances_.push_back({value, node, {}, false, false});
    nodes_[node].makes.push_back(id);
    instances_of_[value].push_back(id);
    return id;
  }
  void read(NodeId node, InstanceId instance) {
    nodes_[node].reads.push_back(instance);
    instances_[instance].uses.push_back(node);
  }
  // The uses of one instance that come behind a place are now of another.
  void hand_over(InstanceId from, InstanceId to, NodeId behind) {
    std::vector<NodeId>& uses = instances_[from].uses;
    const auto later = std::stable_partition(uses.begin(), uses.end(), [&](NodeId use) {
      return nodes_[use].number <= nodes_[behind].number;
    });
    for (auto use = later; use != uses.end(); ++use) {
      instances_[to].uses.push_back(*use);
      for (InstanceId& read : nodes_[*use].reads)
        if (read == from) read = to;
    }
    uses.erase(later, uses.end());
  }

  // Without runs that nothing uses of ops that run elsewhere, too.
  std::vector<SchedAction> sequence() {
    IdVector<SchedOpId, int> runs(problem_.ops.size(), 0);
    NodeId last;
    for (NodeId id = first_; id.valid(); id = nodes_[id].next) {
      last = id;
      if (nodes_[id].action.kind == SchedAction::Kind::kRun) ++runs[nodes_[id].action.op];
    }
    std::vector<SchedAction> actions;
    for (NodeId id = last; id.valid(); id = nodes_[id].previous) {
      Node& node = nodes_[id];
      if (node.action.kind == SchedAction::Kind::kRun && runs[node.action.op] > 1 &&
          std::all_of(node.makes.begin(), node.makes.end(), [&](InstanceId s) {
            return instances_[s].uses.empty() && !is_last_output(s);
          })) {
        --runs[node.action.op];
        for (const InstanceId read : node.reads) std::erase(instances_[read].uses, id);
        continue;
      }
      actions.push_back(node.action);
    }
    std::reverse(actions.begin(), actions.end());
    return actions;
  }

 private:
  // An output of the step: its last instance is not to go.
  bool is_last_output(InstanceId id) const {
    const Instance& instance = instances_[id];
    if (!problem_.values[instance.value].is_output) return false;
    const auto& all = instances_of_[instance.value];
    return std::none_of(all.begin(), all.end(), [&](InstanceId other) {
      return nodes_[instances_[other].maker].number > nodes_[instance.maker].number;
    });
  }
  NodeId add(const SchedAction& action) {
    Node node;
    node.action = action;
    if (action.kind == SchedAction::Kind::kRun)
      node.free_out = node.free_in = problem_.ops[action.op].seconds;
    return nodes_.push_back(std::move(node));
  }
  NodeId append(const SchedAction& action) {
    const NodeId id = add(action);
    nodes_[id].previous = last_;
    (last_.valid() ? nodes_[last_].next : first_) = id;
    last_ = id;
    return id;
  }
  void renumber() {
    int64_t number = 0;
    for (NodeId id = first_; id.valid(); id = nodes_[id].next) nodes_[id].number = number++;
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex index_;
  IdVector<NodeId, Node> nodes_;
  IdVector<InstanceId, Instance> instances_;
  IdVector<SchedValueId, std::vector<InstanceId>> instances_of_;
  NodeId first_, last_;
};

}  // namespace lowtide::baselines
