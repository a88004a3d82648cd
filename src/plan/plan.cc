#include "plan/plan.h"

#include <utility>

#include "plan/tick_scale.h"

namespace lowtide::plan {

bool reruns_or_moves(const Plan& plan) {
  IdVector<PlanOpId, char> ran(plan.ops.size(), 0);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::kStore || step.kind == Step::Kind::kLoad) return true;
    if (step.kind == Step::Kind::kCompute && std::exchange(ran[step.op], 1) != 0) return true;
  }
  return false;
}

bool is_fastest(const Plan& plan) {
  const TickScale scale(plan);
  if (!plan.slow_tiers.empty())
    return scale.down(plan.claims.predicted_seconds) <= plan.claims.lower_bound_ticks;
  int64_t ticks = 0;
  for (const Step& step : plan.steps)
    if (step.kind == Step::Kind::kCompute) ticks += scale.down(plan.ops[step.op].predicted_seconds);
  return ticks <= plan.claims.lower_bound_ticks;
}

OpDesc describe(const Plan& plan, PlanOpId id) {
  const PlanOp& op = plan.ops[id];
  OpDesc desc;
  desc.kind = op.kind;
  desc.attrs = op.attrs;
  for (PlanValueId input : op.inputs)
    desc.inputs.push_back(input.valid() ? std::optional(plan.values[input].type) : std::nullopt);
  for (PlanValueId output : op.outputs) desc.outputs.push_back(plan.values[output].type);
  return desc;
}

}  // namespace lowtide::plan
