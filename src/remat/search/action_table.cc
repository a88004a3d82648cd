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
    : index_(problem),
      cost_(index_.rows(), 0),
      may_rerun_(index_.rows(), 0),
      workspace_(index_.rows(), 0) {
  set_unit(problem);
  price_ops(problem);
  for (const plan::SchedValue& value : problem.values) {
    value_bytes_.push_back(from_bytes(value.bytes));
    producer_.push_back(value.producer);
  }
  list_pairs(problem);
  capacity_ = std::numeric_limits<double>::infinity();
  if (problem.budget_bytes)
    capacity_ =
        std::floor(static_cast<double>(*problem.budget_bytes - problem.resident_bytes) / unit_);
}

void ActionTable::price_ops(const plan::ScheduleProblem& problem) {
  const plan::TickScale scale(problem);
  for (const SchedOpId op : problem.ops.ids()) {
    const plan::SchedOp& from = problem.ops[op];
    cost_[op] = scale.down(from.seconds);
    once_cost_ += cost_[op];
    may_rerun_[op] = from.may_rerun;
    workspace_[op] = from_bytes(from.workspace_bytes);
  }
}

// Those that can ever save bytes.
void ActionTable::list_pairs(const plan::ScheduleProblem& problem) {
  std::vector<std::pair<SchedOpId, Pair>> pairs;
  for (const plan::InPlacePair& pair : problem.in_place) {
    const plan::SchedValue& input = problem.values[pair.input];
    if (!input.is_output && input.bytes == problem.values[pair.output].bytes)
      pairs.emplace_back(pair.op, Pair{pair.input, pair.output});
  }
  pairs_ = {index_.rows(), pairs};
}

}  // namespace lowtide::remat
