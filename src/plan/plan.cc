#include "plan/plan.h"

namespace lowtide::plan {

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
