#include "remat/search/action_table.h"

#include <cmath>
#include <limits>

#include "plan/tick_scale.h"

namespace lowtide::remat {

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
    : op_count_(problem.ops.size()),
      cost_(op_count_ + 2, 0),
      may_rerun_(op_count_ + 2, 0),
      workspace_(op_count_ + 2, 0) {
  set_unit(problem);
  list_ops(problem);
  list_values(problem);
  capacity_ = std::numeric_limits<double>::infinity();
  if (problem.budget_bytes)
    capacity_ =
        std::floor(static_cast<double>(*problem.budget_bytes - problem.resident_bytes) / unit_);
}

void ActionTable::list_ops(const plan::ScheduleProblem& problem) {
  const plan::TickScale scale(problem);
  for (const SchedOpId op : problem.ops.ids()) {
    const plan::SchedOp& from = problem.ops[op];
    cost_[op] = scale.down(from.seconds);
    once_cost_ += cost_[op];
    may_rerun_[op] = from.may_rerun;
    workspace_[op] = from_bytes(from.workspace_bytes);
  }
  std::vector<std::pair<SchedOpId, SchedOpId>> before;
  for (const auto& [first, second] : problem.control) before.emplace_back(second, first);
  before_ = {cost_.size(), before};
  after_ = {cost_.size(), problem.control};
  std::vector<std::pair<SchedOpId, Pair>> pairs;
  for (const plan::InPlacePair& pair : problem.in_place) {
    const plan::SchedValue& input = problem.values[pair.input];
    if (!input.is_output && input.bytes == problem.values[pair.output].bytes)
      pairs.emplace_back(pair.op, Pair{pair.input, pair.output});
  }
  pairs_ = {cost_.size(), pairs};
}

void ActionTable::list_values(const plan::ScheduleProblem& problem) {
  std::vector<std::pair<SchedOpId, SchedValueId>> reads, makes;
  std::vector<std::pair<SchedValueId, SchedOpId>> readers;
  for (const SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    value_bytes_.push_back(from_bytes(value.bytes));
    producer_.push_back(value.producer);
    makes.emplace_back(value.producer, v);
    for (const SchedOpId reader : value.readers) readers.emplace_back(v, reader);
    if (value.is_output) readers.emplace_back(v, end());
  }
  for (const auto& [v, reader] : readers) reads.emplace_back(reader, v);
  reads_ = {cost_.size(), reads};
  makes_ = {cost_.size(), makes};
  readers_ = {value_bytes_.size(), readers};
}

}  // namespace lowtide::remat
