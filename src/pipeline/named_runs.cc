#include "pipeline/named_runs.h"

#include <map>
#include <string_view>

#include "plan/problem_index.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedAction;
using plan::SchedOpId;

class Runs {
 public:
  explicit Runs(const plan::ScheduleProblem& problem)
      : problem_(problem), index_(problem), has_run_(problem.ops.size(), 0) {}

  void add(SchedOpId op) {
    if (has_run_[op] && !problem_.ops[op].may_rerun) return;
    if (!has_run_[op]) add_missing(op);
    has_run_[op] = 1;
    actions_.push_back({.kind = SchedAction::Kind::kRun, .op = op});
  }
  bool has_run(SchedOpId op) const { return has_run_[op] != 0; }
  std::vector<SchedAction> take() { return std::move(actions_); }

 private:
  // Everything that must run before it and has not, depth first without recursion.
  void add_missing(SchedOpId op) {
    std::vector<SchedOpId> open = {op};
    while (!open.empty()) {
      const SchedOpId at = open.back();
      const size_t size = open.size();
      const auto need = [&](SchedOpId before) {
        if (index_.is_op(before) && !has_run_[before] && before != at) open.push_back(before);
      };
      for (const plan::SchedValueId value : index_.reads[at]) need(problem_.values[value].producer);
      for (const SchedOpId before : index_.waits_for[at]) need(before);
      if (open.size() > size) continue;
      open.pop_back();
      if (at == op || has_run_[at]) continue;
      has_run_[at] = 1;
      actions_.push_back({.kind = SchedAction::Kind::kRun, .op = at});
    }
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex index_;
  IdVector<SchedOpId, char> has_run_;
  std::vector<SchedAction> actions_;
};

}  // namespace

std::vector<SchedAction> named_runs(const plan::ScheduleProblem& problem,
                                    std::span<const std::string> names) {
  std::map<std::string_view, SchedOpId> by_name;
  for (const SchedOpId op : problem.ops.ids()) by_name.emplace(problem.ops[op].name, op);
  Runs runs(problem);
  for (const std::string& name : names)
    if (const auto found = by_name.find(name); found != by_name.end()) runs.add(found->second);
  for (const SchedOpId op : problem.ops.ids())
    if (!runs.has_run(op)) runs.add(op);
  return runs.take();
}

SchedOpId op_named(const plan::ScheduleProblem& problem, std::string_view name) {
  for (const SchedOpId op : problem.ops.ids())
    if (problem.ops[op].name == name) return op;
  return SchedOpId::none();
}

}  // namespace lowtide::pipeline
