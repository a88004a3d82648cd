#include "remat/bounds/backward_search.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "remat/bounds/in_place_matching.h"

namespace lowtide::remat {
namespace {

using Set = std::vector<SchedValueId>;  // ascending

struct SetHash {
  size_t operator()(const Set& set) const {
    uint64_t hash = 1469598103934665603U;  // FNV-1a, by values
    for (const SchedValueId v : set) hash = (hash ^ v.index()) * 1099511628211U;
    return hash ^ (hash >> 29);
  }
};

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
  };

  void expand(size_t node) {
    const Set set = nodes_[node].set;
    makers_.clear();
    for (const SchedValueId v : set) makers_.push_back(problem_.values[v].producer);
    std::sort(makers_.begin(), makers_.end());
    makers_.erase(std::unique(makers_.begin(), makers_.end()), makers_.end());
    for (const SchedOpId op : std::vector(makers_)) reach(op, set, node, nodes_[node].peak);
  }

  // What `op` has before it, if `set` is needed after it.
  void reach(SchedOpId op, const Set& set, size_t parent, int64_t peak_after) {
    const int64_t peak = std::max(peak_after, present_bytes(op, set));
    Set before;
    for (const SchedValueId v : set)
      if (problem_.values[v].producer != op) before.push_back(v);
    for (const SchedValueId v : graph_.reads[op])
      if (problem_.values[v].bytes >= least_bytes_) before.push_back(v);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    const auto [found, is_new] = index_.try_emplace(before, nodes_.size());
    if (is_new) nodes_.push_back({before, peak, parent, op});
    Node& node = nodes_[found->second];
    if (!is_new && node.peak <= peak) return;
    node.peak = peak, node.parent = parent, node.op = op;
    int64_t bytes = 0;
    for (const SchedValueId v : before) bytes += problem_.values[v].bytes;
    // Ways that show nothing are followed towards little memory, which soon ends most of them.
    open_.emplace(std::max(peak, above_), bytes, found->second);
  }

  int64_t present_bytes(SchedOpId op, const Set& after) {
    int64_t bytes = problem_.resident_bytes + graph_.own_bytes(op);
    for (const SchedValueId v : waiting(op, after)) bytes += problem_.values[v].bytes;
    matching_.clear();
    for (const size_t i : graph_.pairs[op]) {
      const plan::InPlacePair& pair = problem_.in_place[i];
      if (!contains(after, pair.input))
        matching_.add(pair.input, pair.output, problem_.values[pair.output].bytes);
    }
    return bytes - matching_.most_bytes();
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
  std::unordered_map<Set, size_t, SetHash> index_;
  using Entry = std::tuple<int64_t, int64_t, size_t>;  // peak, bytes of the set, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::vector<SchedOpId> makers_;
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
