#include "report/uses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::Step;
using Uses = IdVector<PlanStorageId, StorageUse>;

void add_structure(const plan::Plan& plan, Uses& uses) {
  const auto memory = plan::memory_of(plan);
  for (PlanStorageId s : plan.storages.ids()) {
    uses[s].maker = plan.values[plan.storages[s].root].producer;
    for (PlanStorageId piece : memory[s])
      if (piece != s) uses[piece].whole = s;
  }
  for (PlanValueId v : plan.values.ids()) {
    const plan::PlanValue& value = plan.values[v];
    if (plan.storages[value.storage].root != v) uses[value.storage].aliases.push_back(v);
    if (!value.is_output) continue;
    uses[value.storage].output = true;
    for (PlanStorageId piece : memory[value.storage]) uses[piece].output = true;
  }
  const auto add_reader = [&](PlanStorageId s, PlanOpId op) {
    std::vector<PlanOpId>& readers = uses[s].readers;
    if (readers.empty() || readers.back() != op) readers.push_back(op);
  };
  for (PlanOpId op : plan.ops.ids()) {
    if (plan::only_views(plan, op)) continue;
    for (PlanValueId input : plan.ops[op].inputs) {
      if (!input.valid()) continue;
      const PlanStorageId read = plan.values[input].storage;
      add_reader(read, op);
      for (PlanStorageId piece : memory[read])
        if (piece != read) add_reader(piece, op);
    }
  }
}

void add_reruns(const plan::Plan& plan, Uses& uses) {
  IdVector<PlanStorageId, char> made(plan.storages.size(), 0);
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::kCompute) continue;
    for (const plan::Placement& placement : step.makes) {
      if (std::exchange(made[placement.storage], 1) == 0) continue;
      ++uses[placement.storage].reruns;
      uses[placement.storage].paid_seconds +=
          plan.ops[step.op].predicted_seconds / static_cast<double>(step.makes.size());
    }
  }
}

void add_transfers(const Timeline& timeline, Uses& uses) {
  for (const Transfer& transfer : timeline.transfers) {
    StorageUse& use = uses[transfer.storage];
    ++(transfer.out ? use.stores : use.loads);
    use.paid_seconds += transfer.waited_seconds + transfer.copying_seconds;
  }
}

Policy policy_of(const StorageUse& use) {
  const bool moves = use.stores + use.loads > 0;
  if (use.reruns == 0) return moves ? Policy::kMoved : Policy::kKept;
  return moves ? Policy::kRecomputedAndMoved : Policy::kRecomputed;
}

}  // namespace

std::string_view name(Policy policy) {
  switch (policy) {
    case Policy::kKept:
      return "kept";
    case Policy::kRecomputed:
      return "recomputed";
    case Policy::kMoved:
      return "moved";
    case Policy::kRecomputedAndMoved:
      return "recomputed and moved";
  }
  return "";
}

Uses uses_of(const plan::Plan& plan, const Timeline& timeline) {
  Uses uses(plan.storages.size());
  add_structure(plan, uses);
  add_reruns(plan, uses);
  add_transfers(timeline, uses);
  for (StorageUse& use : uses) use.policy = policy_of(use);
  return uses;
}

std::string shape_of(const plan::TensorDesc& type) {
  return fmt::format("{}[{}]", name(type.dtype), fmt::join(type.dims, ","));
}

}  // namespace lowtide::report
