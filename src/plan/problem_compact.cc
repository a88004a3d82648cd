// An edit as an ordinary ScheduleProblem: dense numbers, in order; what contracted ops hide
// left out.
#include <algorithm>

#include "plan/problem_edit.h"

namespace lowtide::plan {

// The ops as they are called in the problem, each once, without one of them.
std::vector<SchedOpId> ProblemEdit::visible_all(const std::vector<SchedOpId>& ops, SchedOpId except,
                                                const IdVector<SchedOpId, SchedOpId>& map) const {
  std::vector<SchedOpId> seen;
  seen.reserve(ops.size());
  for (const SchedOpId each : ops)
    if (map[each] != except) seen.push_back(map[each]);
  if (!std::is_sorted(seen.begin(), seen.end())) std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  return seen;
}

void ProblemEdit::list_ops(CompactedProblem& made) const {
  made.op = IdVector<SchedOpId, SchedOpId>(ops_.size());
  for (SchedOpId leaf = first_op(); leaf.valid(); leaf = next_op(leaf)) {
    const SchedOpId top = visible(leaf);
    if (top == leaf)
      made.op[leaf] = made.problem.ops.push_back(op(leaf).op);
    else if (!made.op[top].valid())
      made.op[top] = made.problem.ops.push_back(summary(top).op);
    for (SchedOpId hidden = leaf; hidden != top; hidden = ops_[hidden].inside)
      made.op[hidden] = made.op[top];
  }
}

void ProblemEdit::list_values(CompactedProblem& made, std::span<const SchedValueId> order) const {
  made.value = IdVector<SchedValueId, SchedValueId>(values_.size());
  const auto list = [&](SchedValueId id) {
    const SchedValue& from = value(id);
    const SchedOpId top = visible(from.producer);
    if (top != from.producer && !crosses(from, top)) return;
    SchedValue seen;
    seen.name = from.name;
    seen.bytes = from.bytes;
    seen.is_output = from.is_output;
    seen.producer = made.op[from.producer];
    seen.readers = visible_all(from.readers, seen.producer, made.op);
    seen.writers = visible_all(from.writers, seen.producer, made.op);
    made.value[id] = made.problem.values.push_back(std::move(seen));
  };
  if (order.empty()) {
    for (const SchedValueId id : values_.ids())
      if (values_[id]) list(id);
  }
  for (const SchedValueId id : order) list(id);
}

void ProblemEdit::list_residents(CompactedProblem& made,
                                 std::span<const SchedResidentId> order) const {
  made.resident = IdVector<SchedResidentId, SchedResidentId>(residents_.size());
  made.problem.resident_bytes = resident_bytes_;
  const auto list = [&](SchedResidentId id) {
    SchedResident seen = resident(id);
    seen.readers = visible_all(seen.readers, SchedOpId::none(), made.op);
    seen.writers = visible_all(seen.writers, SchedOpId::none(), made.op);
    made.resident[id] = made.problem.residents.push_back(std::move(seen));
  };
  if (order.empty()) {
    for (const SchedResidentId id : residents_.ids())
      if (residents_[id]) list(id);
  }
  for (const SchedResidentId id : order) list(id);
}

void ProblemEdit::list_pairs(CompactedProblem& made) const {
  for (SchedOpId leaf = first_op(); leaf.valid();) {
    const SchedOpId top = visible(leaf);
    const auto list = [&](const std::vector<std::pair<SchedValueId, SchedValueId>>& pairs) {
      for (const auto& [input, output] : pairs)
        made.problem.in_place.push_back({made.op[top], made.value[input], made.value[output]});
    };
    if (top == leaf)
      list(op(leaf).in_place);
    else
      list(summary(top).in_place);
    leaf = next_op(last_leaf(top));
  }
}

void ProblemEdit::list_control(CompactedProblem& made) const {
  auto& control = made.problem.control;
  for (SchedOpId leaf = first_op(); leaf.valid(); leaf = next_op(leaf))
    for (const SchedOpId second : ops_[leaf].waiting)
      if (made.op[leaf] != made.op[second]) control.emplace_back(made.op[leaf], made.op[second]);
  std::sort(control.begin(), control.end());
  control.erase(std::unique(control.begin(), control.end()), control.end());
}

CompactedProblem ProblemEdit::compact(const ListOrder& order) const {
  CompactedProblem made;
  made.problem = header_;
  list_ops(made);
  list_values(made, order.values);
  list_residents(made, order.residents);
  list_pairs(made);
  list_control(made);
  return made;
}

}  // namespace lowtide::plan
