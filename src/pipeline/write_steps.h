// The steps of a plan from a sequence of actions, its profile and addresses.
//
// Tests: certificate_test.cc, optimize_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "pipeline/write_plan.h"
#include "plan/plan.h"

namespace lowtide::pipeline {

// Ids of the plan are those of the graph: ops, values and storages are written in its order.
inline plan::PlanOpId plan_id(ir::OpId id) {
  return id.valid() ? plan::PlanOpId(id.index()) : plan::PlanOpId::none();
}
inline plan::PlanValueId plan_id(ir::ValueId id) {
  return id.valid() ? plan::PlanValueId(id.index()) : plan::PlanValueId::none();
}
inline plan::PlanStorageId plan_id(ir::StorageId id) {
  return plan::PlanStorageId(id.index());
}

// Packed buffers lie above the `resident_bytes` of residents that stay.
std::vector<plan::Step> make_steps(const PlanInputs& inputs, int64_t resident_bytes);

}  // namespace lowtide::pipeline
