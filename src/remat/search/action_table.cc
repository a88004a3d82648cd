#include "remat/search/action_table.h"

#include <cmath>
#include <limits>

#include "plan/tick_scale.h"

namespace lowtide::remat {

template <class T>
ActionTable::Rows<T> ActionTable::pack(const std::vector<std::vector<T>>& lists) {
  Rows<T> rows;
  for (const auto& list : lists) {
    rows.items.insert(rows.items.end(), list.begin(), list.end());
    rows.first.push_back(static_cast<int>(rows.items.size()));
  }
  return rows;
}

void ActionTable::set_unit(const plan::ScheduleProblem& problem) {
  double total = 0;
  for (const auto& value : problem.values) total += static_cast<double>(value.bytes);
  for (const auto& op : problem.ops) total += static_cast<double>(op.workspace_bytes);
  while (total / unit_ > 0x1.0p50) unit_ *= 2;
}

double ActionTable::from_bytes(int64_t bytes) const {
  return std::ceil(static_cast<double>(bytes) / unit_);
}

ActionTable::ActionTable(const plan::ScheduleProblem& problem)
    : ops_(static_cast<int>(problem.ops.size())) {
  set_unit(problem);
  const plan::TickScale scale(problem);
  const auto count = static_cast<size_t>(actions());
  cost_.assign(count, 0);
  may_rerun_.assign(count, 0);
  workspace_.assign(count, 0);
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const auto& from = problem.ops[plan::SchedOpId(op)];
    cost_[op] = scale.down(from.seconds);
    once_cost_ += cost_[op];
    may_rerun_[op] = from.may_rerun;
    workspace_[op] = from_bytes(from.workspace_bytes);
  }
  std::vector<std::vector<int>> reads(count), makes(count), before(count), after(count);
  std::vector<std::vector<int>> readers(problem.values.size());
  for (plan::SchedValueId id : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[id];
    const int v = static_cast<int>(id.index());
    value_bytes_.push_back(from_bytes(value.bytes));
    producer_.push_back(static_cast<int>(value.producer.index()));
    makes[value.producer.index()].push_back(v);
    for (plan::SchedOpId op : value.readers) {
      reads[op.index()].push_back(v);
      readers[id.index()].push_back(static_cast<int>(op.index()));
    }
    if (!value.is_output) continue;
    reads[static_cast<size_t>(end())].push_back(v);
    readers[id.index()].push_back(end());
  }
  for (const auto& [first, second] : problem.control) {
    before[second.index()].push_back(static_cast<int>(first.index()));
    after[first.index()].push_back(static_cast<int>(second.index()));
  }
  std::vector<std::vector<Pair>> pairs(count);
  for (const plan::InPlacePair& pair : problem.in_place) {
    const plan::SchedValue& input = problem.values[pair.input];
    if (input.is_output || input.bytes != problem.values[pair.output].bytes) continue;
    pairs[pair.op.index()].push_back(
        {static_cast<int>(pair.input.index()), static_cast<int>(pair.output.index())});
  }
  reads_ = pack(reads);
  makes_ = pack(makes);
  before_ = pack(before);
  after_ = pack(after);
  readers_ = pack(readers);
  pairs_ = pack(pairs);
  capacity_ = std::numeric_limits<double>::infinity();
  if (problem.budget_bytes)
    capacity_ =
        std::floor(static_cast<double>(*problem.budget_bytes - problem.resident_bytes) / unit_);
}

}  // namespace lowtide::remat
