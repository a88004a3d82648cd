// The steps of a plan with every address resolved: what a session loops over. An op that runs again
// has one kernel, but reads and writes elsewhere, so operands are bound per step and not per op.
//
// Tests: session_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace lowtide::runtime {

struct BoundStep {
  plan::Step::Kind kind = plan::Step::Kind::kCompute;
  plan::PlanOpId op{};                 // kCompute
  std::vector<void*> inputs, outputs;  // kCompute; null where an optional input is absent
  plan::PlanStorageId storage{};       // the others
  std::byte* memory = nullptr;         // kCompute: the workspace; the others: the storage
  int64_t bytes = 0;                   // of that memory
};

// Where each storage is; null: nowhere.
using StoragePlaces = IdVector<plan::PlanStorageId, std::byte*>;

struct BoundPlan {
  std::vector<BoundStep> steps;  // one per step of the plan
  StoragePlaces places;          // of each storage's last stay
};

// Every value and workspace inside its storage and the arena, every transfer begun before it is
// waited for and nothing used before it arrived: so much that steps stay within their memory.
// Whether the plan is right is src/verify's to say. `plan` must have passed plan::check. Error:
// kInput.
Status check_addresses(const plan::Plan& plan);
// `homes`: residents that lie elsewhere than in the arena, by storage; empty: none.
Result<BoundPlan> bind_steps(const plan::Plan& plan, std::byte* arena,
                             const StoragePlaces& homes = {});

// The operands of an op where they are now.
void bind_operands(const plan::Plan& plan, plan::PlanOpId op, const StoragePlaces& places,
                   BoundStep& step);

}  // namespace lowtide::runtime
