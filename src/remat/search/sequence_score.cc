#include "remat/search/sequence_score.h"

#include <algorithm>
#include <vector>

namespace lowtide::remat {
namespace {

// Bytes of the instances that are present at each action, without what is reused in place.
std::vector<double> bytes_present(const ActionTable& table, const std::vector<SchedOpId>& actions) {
  std::vector<double> change(actions.size() + 1, 0);
  struct Instance {
    uint32_t birth = 0, last = 0;
    bool is_there = false;
  };
  IdVector<SchedValueId, Instance> instances(table.value_count());
  const auto close = [&](SchedValueId v) {
    change[instances[v].birth] += table.bytes(v);
    change[instances[v].last + 1] -= table.bytes(v);
  };
  for (uint32_t at = 0; at < actions.size(); ++at) {
    change[at] += table.workspace(actions[at]);
    change[at + 1] -= table.workspace(actions[at]);
    for (const SchedValueId v : table.reads(actions[at])) instances[v].last = at;
    for (const SchedValueId v : table.makes(actions[at])) {
      if (instances[v].is_there) close(v);
      instances[v] = {at, at, true};
    }
  }
  for (const SchedValueId v : instances.ids())
    if (instances[v].is_there) close(v);
  for (size_t at = 1; at < actions.size(); ++at) change[at] += change[at - 1];
  change.pop_back();
  return change;
}

// Takes off what is reused in place: of the pairs of a run those whose input ends there, and none
// of two that share a value.
void take_off_reused(const ActionTable& table, const std::vector<SchedOpId>& actions,
                     std::vector<double>& bytes) {
  IdVector<SchedValueId, char> is_read_next(table.value_count(), 0);  // before it is born again
  std::vector<ActionTable::Pair> taken;
  for (size_t at = actions.size(); at-- > 0;) {
    taken.clear();
    const auto pairs = table.pairs(actions[at]);
    for (const ActionTable::Pair& pair : pairs.first(std::min(pairs.size(), kMostPairs))) {
      const bool is_free = std::none_of(taken.begin(), taken.end(), [&](const auto& other) {
        return other.input == pair.input || other.output == pair.output;
      });
      if (is_read_next[pair.input] != 0 || !is_free) continue;
      taken.push_back(pair);
      bytes[at] -= table.bytes(pair.input);
    }
    for (const SchedValueId v : table.makes(actions[at])) is_read_next[v] = 0;
    for (const SchedValueId v : table.reads(actions[at])) is_read_next[v] = 1;
  }
}

}  // namespace

SequenceScore score_of(const ActionTable& table, std::span<const SchedOpId> sequence) {
  std::vector<SchedOpId> actions;
  actions.reserve(sequence.size() + 2);
  actions.push_back(table.begin());
  actions.insert(actions.end(), sequence.begin(), sequence.end());
  actions.push_back(table.end());
  std::vector<double> bytes = bytes_present(table, actions);
  take_off_reused(table, actions, bytes);
  SequenceScore score{.extra_cost = -table.once_cost()};
  for (const double present : bytes) score.overflow += std::max(0.0, present - table.capacity());
  for (const SchedOpId op : sequence) score.extra_cost += table.cost(op);
  return score;
}

}  // namespace lowtide::remat
