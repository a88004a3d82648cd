#include "plan/plan.h"

#include <algorithm>
#include <utility>

#include "plan/tick_scale.h"

namespace lowtide::plan {

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

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

IdVector<PlanStorageId, std::vector<PlanPiece>> pieces_of(const Plan& plan) {
  IdVector<PlanStorageId, std::vector<PlanPiece>> pieces(plan.storages.size());
  for (const PlanOp& op : plan.ops)
    for (PlanValueId output : op.outputs) {
      if (plan.values[output].alias != PlanAlias::kPieces) continue;
      std::vector<PlanPiece>& whole = pieces[plan.values[output].storage];
      int64_t offset = 0;
      for (PlanValueId input : op.inputs) {
        const PlanValue& value = plan.values[input];
        if (pieces[value.storage].empty()) whole.push_back({value.storage, offset});
        for (const PlanPiece& inner : pieces[value.storage])
          whole.push_back({inner.storage, offset + inner.offset_bytes});
        offset += size_bytes(value.type);
      }
    }
  return pieces;
}

IdVector<PlanStorageId, std::vector<PlanStorageId>> memory_of(const Plan& plan) {
  const auto pieces = pieces_of(plan);
  IdVector<PlanStorageId, std::vector<PlanStorageId>> memory(plan.storages.size());
  for (PlanStorageId s : plan.storages.ids()) {
    for (const PlanPiece& piece : pieces[s]) memory[s].push_back(piece.storage);
    if (pieces[s].empty()) memory[s] = {s};
  }
  return memory;
}

bool only_views(const Plan& plan, PlanOpId op) {
  const std::vector<PlanValueId>& outputs = plan.ops[op].outputs;
  return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [&](PlanValueId v) {
    return is_view(plan.values[v].alias);
  });
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
