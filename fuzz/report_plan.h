// The plan that fuzzed fronts and profiles are read beside: two ops of a model "net".
#pragma once

#include "plan/plan.h"

inline lowtide::plan::Plan report_plan() {
  using namespace lowtide;
  plan::Plan plan;
  plan.model = "net";
  plan.bindings = {{"batch", 8}};
  for (const char* name : {"fc", "relu"}) {
    const plan::PlanOpId id(plan.ops.size());
    const plan::PlanValueId v(plan.values.size());
    const plan::PlanStorageId s = plan.storages.push_back({.root = v, .bytes = 64});
    plan.values.push_back(
        {.name = name, .type = {DType::kF32, {16}, {}}, .storage = s, .producer = id});
    plan.ops.push_back({.kind = "Relu", .name = name, .outputs = {v}});
    plan.steps.push_back({.op = id, .makes = {{s, static_cast<int64_t>(64 * id.index()), {}}}});
  }
  plan.arena_bytes = 128;
  return plan;
}
