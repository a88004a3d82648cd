// What becomes of every storage of a plan: who makes and reads it, whether it is kept, made again
// or moved, and what that costs. Readers are the ops that compute something from it, through views
// and wholes too; who overwrites it is among them.
//
// A run that makes several storages again is paid for by all of them in equal shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "report/timeline.h"

namespace lowtide::report {

enum class Policy : uint8_t { kKept, kRecomputed, kMoved, kRecomputedAndMoved };
inline constexpr int kPolicies = 4;
// "kept", "recomputed", "moved", "recomputed and moved".
std::string_view name(Policy policy);

struct StorageUse {
  plan::PlanOpId maker{};                  // none: there before the step
  std::vector<plan::PlanOpId> readers;     // ascending
  plan::PlanStorageId whole{};             // the value that it is a piece of, or none
  bool output = false;                     // holds a result of the step, or a piece of one
  std::vector<plan::PlanValueId> aliases;  // views and updates of it, its own value left out
  Policy policy = Policy::kKept;
  int64_t reruns = 0, stores = 0, loads = 0;
  double paid_seconds = 0;  // for its reruns, for waits for it, for copying it
};

IdVector<plan::PlanStorageId, StorageUse> uses_of(const plan::Plan& plan, const Timeline& timeline);

// "f32[8,12,512,64]"
std::string shape_of(const plan::TensorDesc& type);

}  // namespace lowtide::report
