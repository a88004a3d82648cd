#include "remat/bounds/backward_search.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "remat/bounds/in_place_matching.h"

namespace lowtide::remat {
namespace {

using Set = std::vector<SchedValueId>;  // ascending

uint64_t hash_of(const Set& set) {
  uint64_t hash = 1469598103934665603U;  // FNV-1a, by values
  for (const SchedValueId v : set) hash = (hash ^ v.index()) * 1099511628211U;
  return hash ^ (hash >> 29);
}

bool contains(const Set& set, SchedValueId v) {
  return std::binary_search(set.begin(), set.end(), v);
}

class Search {
 public:
  Search(const StepGraph& graph, int64_t least_bytes, int64_t above)
      : graph_(graph), problem_(*graph.problem), least_bytes_(least_bytes), above_(above) {}

  std::optional<BackwardFloor> run(SchedOpId goal, WorkBudget& work) {
    reach(goal, {}, kNone, 0);
    int64_t proven = above_;
    size_t at = kNone;
    while (!open_.empty()) {
      const auto [peak, bytes, node] = open_.top();
      open_.pop();
      if (std::max(nodes_[node].peak, above_) < peak || nodes_[node].done) continue;
      nodes_[node].done = true;
      proven = peak, at = node;
      if (!work.spend(kUnitsPerSet) || nodes_[node].set.empty()) break;
      expand(node);
    }
    if (proven <= above_) return std::nullopt;
    return describe(goal, at, proven);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Node {
    Set set;
    int64_t peak = 0;  // of the best way here
    size_t parent = kNone;
    SchedOpId op;  // whose run has the set before it
    bool done = false;
    size_t next = kNone;  // another set of the same hash
  };

  void expand(size_t node) {
    set_ = nodes_[node].set;
    makers_.clear();
    for (const SchedValueId v : set_) makers_.push_back(problem_.values[v].producer);
    std::sort(makers_.begin(), makers_.end());
    makers_.erase(std::unique(makers_.begin(), makers_.end()), makers_.end());
    for (const SchedOpId op : makers_) reach(op, set_, node, nodes_[node].peak);
  }

  // What `op` has before it, if `set` is needed after it.
  void reach(SchedOpId op, const Set& set, size_t parent, int64_t peak_after) {
    go_back(op, set);
    const int64_t peak = std::max(peak_after, present_bytes(op, set));
    size_t& first = first_of_hash_.try_emplace(hash_of(before_), kNone).first->second;
    size_t node = first;
    while (node != kNone && nodes_[node].set != before_) node = nodes_[node].next;
    if (node == kNone) {
      node = nodes_.size();
      nodes_.push_back({before_, peak, parent, op, false, std::exchange(first, node)});
    } else if (nodes_[node].peak > peak) {
      nodes_[node].peak = peak, nodes_[node].parent = parent, nodes_[node].op = op;
    } else {
      return;
    }
    // Ways that show nothing are followed towards little memory, which soon ends most of them.
    open_.emplace(std::max(peak, above_), before_bytes_, node);
  }

  // `before_` and what is known of it. Both lists that it is made of are ascending.
  void go_back(SchedOpId op, const Set& set) {
    before_.clear();
    before_bytes_ = waiting_bytes_ = 0;
    const auto bytes = [&](SchedValueId v) { return problem_.values[v].bytes; };
    const auto add = [&](SchedValueId v) {
      before_.push_back(v);
      before_bytes_ += bytes(v);
    };
    const auto reads = graph_.reads[op];
    size_t read = 0;
    const auto add_reads = [&](SchedValueId below) {
      for (; read < reads.size() && reads[read] < below; ++read)
        if (bytes(reads[read]) >= least_bytes_) add(reads[read]);
    };
    for (const SchedValueId v : set) {
      if (problem_.values[v].producer == op) continue;
      add_reads(v);
      if (read < reads.size() && reads[read] == v)
        ++read;
      else
        waiting_bytes_ += bytes(v);
      add(v);
    }
    add_reads(SchedValueId(problem_.values.size()));
  }

  // While it runs; go_back has found what waits.
  int64_t present_bytes(SchedOpId op, const Set& after) {
    matching_.clear();
    for (const size_t i : graph_.pairs[op]) {
      const plan::InPlacePair& pair = problem_.in_place[i];
      if (!contains(after, pair.input))
        matching_.add(pair.input, pair.output, problem_.values[pair.output].bytes);
    }
    return problem_.resident_bytes + graph_.own_bytes(op) + waiting_bytes_ - matching_.most_bytes();
  }

  Set waiting(SchedOpId op, const Set& after) const {
    const auto reads = graph_.reads[op];
    Set waiting;
    for (const SchedValueId v : after)
      if (problem_.values[v].producer != op &&
          std::find(reads.begin(), reads.end(), v) == reads.end())
        waiting.push_back(v);
    return waiting;
  }

  BackwardFloor describe(SchedOpId goal, size_t at, int64_t proven) const {
    BackwardFloor floor{proven, least_bytes_, goal, goal, {}};
    // Back to where the way got as full as that.
    while (nodes_[at].parent != kNone && nodes_[nodes_[at].parent].peak >= proven)
      at = nodes_[at].parent;
    floor.op = nodes_[at].op;
    if (nodes_[at].parent != kNone)
      floor.waiting = waiting(floor.op, nodes_[nodes_[at].parent].set);
    return floor;
  }

  const StepGraph& graph_;
  const plan::ScheduleProblem& problem_;
  const int64_t least_bytes_, above_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, size_t> first_of_hash_;  // nodes
  using Entry = std::tuple<int64_t, int64_t, size_t>;   // peak, bytes of the set, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  Set set_;  // that is looked at
  std::vector<SchedOpId> makers_;
  Set before_;                 // the run of an op that is looked at
  int64_t before_bytes_ = 0;   // of the set
  int64_t waiting_bytes_ = 0;  // of it, what the op does not read
  InPlaceMatching matching_;
};

// Those that need most come first.
std::vector<SchedOpId> goals_of(const StepGraph& graph) {
  std::vector<std::pair<int64_t, SchedOpId>> by_bytes;
  for (const SchedOpId op : graph.problem->ops.ids())
    if (!graph.reads[op].empty()) by_bytes.emplace_back(-graph.own_bytes(op), op);
  std::sort(by_bytes.begin(), by_bytes.end());
  std::vector<SchedOpId> goals;
  for (const auto& [bytes, op] : by_bytes) goals.push_back(op);
  return goals;
}

}  // namespace

std::optional<BackwardFloor> backward_floor_of(const StepGraph& graph, SchedOpId goal,
                                               int64_t least_bytes, int64_t above,
                                               WorkBudget& work) {
  return Search(graph, least_bytes, above).run(goal, work);
}

std::optional<BackwardFloor> backward_floor(const StepGraph& graph, int64_t above,
                                            const Limits& limits) {
  const WorkBudget clock(limits);
  const std::vector<SchedOpId> goals = goals_of(graph);
  int64_t largest = 0;
  for (const plan::SchedValue& value : graph.problem->values)
    largest = std::max(largest, value.bytes);
  std::optional<BackwardFloor> best;
  for (int halvings = 1; halvings <= kBackward.sizes; ++halvings) {
    int64_t units = limits.max_units / kBackward.sizes;
    for (const SchedOpId goal : goals) {
      const int64_t share =
          std::min(units, limits.max_units / kBackward.sizes / kBackward.goal_share);
      WorkBudget work(clock.left().with_units(share));
      auto floor = backward_floor_of(graph, goal, std::max<int64_t>(1, largest >> halvings),
                                     best ? best->bytes : above, work);
      units -= std::min(share, work.used());
      if (floor) best = std::move(floor);
      if (units <= 0 || work.timed_out()) break;
    }
  }
  return best;
}

}  // namespace lowtide::remat
