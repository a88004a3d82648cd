#include "remat/search/by_states.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/work.h"

namespace lowtide::remat {
namespace {

constexpr int64_t kUnitsPerState = 60, kUnitsPerEdge = 20;

template <class AnyId>
uint64_t bit(AnyId id) {
  return uint64_t{1} << id.index();
}

struct State {
  uint32_t done = 0;     // ops
  uint64_t present = 0;  // values
  bool operator==(const State&) const = default;
};
struct StateHash {
  size_t operator()(const State& s) const {
    uint64_t h = (s.present ^ uint64_t{s.done} << 40) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 29) ^ s.done) * 0xBF58476D1CE4E5B9u;
    return h ^ (h >> 32);
  }
};
struct Reached {
  int64_t cost = 0;
  const State* from = nullptr;
  SchedOpId op{};
  bool settled = false;
};
struct Item {
  int64_t cost;
  int advance;  // ops that have run: the larger, the sooner looked at
  int64_t age;
  const State* state;
  bool operator<(const Item& other) const {
    if (cost != other.cost) return cost > other.cost;
    return advance != other.advance ? advance < other.advance : age < other.age;
  }
};

class ByStates {
 public:
  ByStates(const ActionTable& table, const Limits& limits) : table_(table), work_(limits) {
    for (auto* masks : {&reads_, &makes_, &waits_for_, &closed_by_})
      *masks = IdVector<SchedOpId, uint64_t>(table.op_count(), 0);
    for (const SchedOpId op : table.ops()) {
      for (const SchedValueId v : table.reads(op)) reads_[op] |= bit(v);
      for (const SchedValueId v : table.makes(op)) makes_[op] |= bit(v);
      for (const SchedOpId before : table.before(op)) waits_for_[op] |= bit(before);
      for (const SchedOpId after : table.after(op)) closed_by_[op] |= bit(after);
      if (table.may_rerun(op)) rerunnable_ |= bit(op);
    }
    readers_ = IdVector<SchedValueId, uint64_t>(table.value_count(), 0);
    for (const SchedValueId v : table.values())
      for (const SchedOpId reader : table.readers(v)) {
        if (reader == table.end())
          outputs_ |= bit(v);
        else
          readers_[v] |= bit(reader);
      }
  }

  ByStatesResult run() {
    reach({}, 0, nullptr, SchedOpId::none());
    ByStatesResult result;
    const auto all = static_cast<uint32_t>((uint64_t{1} << table_.op_count()) - 1);
    while (!queue_.empty()) {
      const Item item = queue_.top();
      queue_.pop();
      if (std::exchange(map_.at(*item.state).settled, true)) continue;
      if (!work_.spend(kUnitsPerState)) {
        result.units = work_.used();
        return result;
      }
      if (item.state->done == all && (outputs_ & ~item.state->present) == 0) {
        result.best = path_to(item.state);
        break;
      }
      expand(*item.state, item.cost);
    }
    result.complete = true;
    result.units = work_.used();
    return result;
  }

 private:
  void expand(const State& state, int64_t cost) {
    for (const SchedOpId op : table_.ops()) {
      const bool again = (state.done & bit(op)) != 0;
      if (again && ((rerunnable_ & bit(op)) == 0 || makes_[op] == 0)) continue;
      if ((reads_[op] & ~state.present) != 0 || (makes_[op] & state.present) != 0) continue;
      if ((waits_for_[op] & ~uint64_t{state.done}) != 0 || (closed_by_[op] & state.done) != 0)
        continue;
      run_op(state, op, cost + (again ? table_.cost(op) : 0));
    }
  }

  // One edge for each choice of what goes.
  void run_op(const State& state, SchedOpId op, int64_t cost) {
    const uint32_t done = state.done | static_cast<uint32_t>(bit(op));
    const uint64_t present = state.present | makes_[op];
    const double bytes = bytes_of(present) + table_.workspace(op);
    const uint64_t used = reads_[op] | makes_[op];
    uint64_t must_go = 0, may_go = 0;
    for (uint64_t rest = used; rest != 0; rest &= rest - 1) {
      const SchedValueId v = lowest(rest);
      if (!is_wanted(v, done)) {
        must_go |= bit(v);
      } else if (!is_needed(v, done) || (rerunnable_ & bit(table_.producer(v))) != 0) {
        may_go |= bit(v);
      }
    }
    for (uint64_t choice = may_go;; choice = (choice - 1) & may_go) {
      const uint64_t goes = must_go | choice;
      work_.spend(kUnitsPerEdge);
      if (bytes - credit(op, goes) <= table_.capacity())
        reach({done, present & ~goes}, cost, &state, op);
      if (choice == 0) break;
    }
  }

  // May anything use what is present of it now?
  bool is_wanted(SchedValueId v, uint32_t done) const {
    return (outputs_ & bit(v)) != 0 || (readers_[v] & (~uint64_t{done} | rerunnable_)) != 0;
  }

  bool is_needed(SchedValueId v, uint32_t done) const {
    return (outputs_ & bit(v)) != 0 || (readers_[v] & ~uint64_t{done}) != 0;
  }

  static SchedValueId lowest(uint64_t values) {
    return SchedValueId(static_cast<size_t>(std::countr_zero(values)));
  }

  double bytes_of(uint64_t values) const {
    double bytes = 0;
    for (; values != 0; values &= values - 1) bytes += table_.bytes(lowest(values));
    return bytes;
  }

  double credit(SchedOpId op, uint64_t goes) const {
    double credit = 0;
    uint64_t inputs = 0, outputs = 0;
    for (const ActionTable::Pair& pair : table_.pairs(op)) {
      if ((goes & bit(pair.input)) == 0 || (inputs & bit(pair.input)) != 0 ||
          (outputs & bit(pair.output)) != 0)
        continue;
      inputs |= bit(pair.input);
      outputs |= bit(pair.output);
      credit += table_.bytes(pair.input);
    }
    return credit;
  }

  void reach(const State& state, int64_t cost, const State* from, SchedOpId op) {
    const auto [entry, is_new] = map_.try_emplace(state);
    if (!is_new && entry->second.cost <= cost) return;
    entry->second = {cost, from, op, false};
    queue_.push({cost, std::popcount(state.done), ++age_, &entry->first});
  }

  std::vector<SchedOpId> path_to(const State* state) const {
    std::vector<SchedOpId> path;
    for (; state != nullptr; state = map_.at(*state).from)
      if (const SchedOpId op = map_.at(*state).op; op.valid()) path.push_back(op);
    std::reverse(path.begin(), path.end());
    return path;
  }

  const ActionTable& table_;
  WorkBudget work_;
  int64_t age_ = 0;
  uint64_t rerunnable_ = 0, outputs_ = 0;
  IdVector<SchedOpId, uint64_t> reads_, makes_, waits_for_, closed_by_;
  IdVector<SchedValueId, uint64_t> readers_;
  std::unordered_map<State, Reached, StateHash> map_;
  std::priority_queue<Item> queue_;
};

}  // namespace

ByStatesResult solve_by_states(const ActionTable& table, const Limits& limits) {
  if (table.is_rounded() || table.op_count() > kByStates.most_ops ||
      table.value_count() > kByStates.most_values)
    return {};
  return ByStates(table, limits).run();
}

}  // namespace lowtide::remat
