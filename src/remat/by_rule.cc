#include "remat/by_rule.h"

#include <span>
#include <utility>

#include "base/id.h"
#include "plan/sequence_simulator.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;

// First runs come in the given order.
bool keeps_order(std::span<const SchedAction> runs, size_t ops) {
  IdVector<plan::SchedOpId, char> ran(ops, 0);
  plan::SchedOpId last;
  for (const SchedAction& run : runs) {
    if (std::exchange(ran[run.op], 1)) continue;
    if (last.valid() && run.op < last) return false;
    last = run.op;
  }
  return true;
}

bool may_run(const plan::ScheduleProblem& problem, const ByRule& made,
             const JointOptions& options) {
  const size_t ops = problem.ops.size();
  if (!options.recompute && made.runs.size() != ops) return false;
  if (!options.swap.spans.values && made.runs.size() != made.sequence.size()) return false;
  return options.remat.reorder || keeps_order(made.runs, ops);
}

}  // namespace

ByRule by_rule(const plan::ScheduleProblem& problem, baselines::Method method,
               const JointOptions& options, const Limits& limits) {
  baselines::BaselineOutcome found = baselines::solve(problem, method, {.limits = limits});
  ByRule made{.sequence = std::move(found.sequence), .runs = {}, .work = found.work};
  made.runs = plan::runs_of(made.sequence);
  plan::ScheduleProblem without_link = problem;
  plan::forbid_transfers(without_link);
  const bool are_valid = plan::simulate_sequence(without_link, made.runs).has_value();
  if (made.sequence.empty() || !are_valid || !may_run(problem, made, options))
    return {.work = found.work};
  return made;
}

}  // namespace lowtide::remat
