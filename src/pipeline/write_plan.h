// Puts a schedule and addresses together with the graph into the executable Plan.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/schedule_view.h"
#include "base/result.h"
#include "ir/graph.h"
#include "plan/pack_problem.h"
#include "plan/plan.h"
#include "plan/schedule_simulator.h"

namespace lowtide::pipeline {

// The buffers that a schedule leaves to place: one per chain of storages that took each other's
// buffer over, one per workspace. Resident storages are not among them: they live throughout, so
// they lie below everything else and cost no search.
struct BufferView {
  plan::PackProblem problem;                               // times are steps of the sequence
  IdVector<plan::SchedValueId, plan::BufferId> of_value;   // of each problem value
  IdVector<plan::SchedOpId, plan::BufferId> of_workspace;  // none where an op has no workspace
};
BufferView make_buffer_view(const analysis::ScheduleView& view,
                            std::span<const plan::SchedOpId> sequence,
                            const plan::ScheduleProfile& profile);

struct PlanInputs {
  const ir::Graph& graph;
  const analysis::ScheduleView& view;
  const analysis::OpCosts& costs;
  std::span<const plan::SchedOpId> sequence;
  const plan::ScheduleProfile& profile;
  const BufferView& buffers;
  const plan::PackOutcome& packing;
  int64_t alignment_bytes = 64;
};

// Everything but claims and provenance. A view runs in the step after the one that made its base
// (or first, when its base is resident). Error: kInput, naming what is still symbolic.
Result<plan::Plan> write_plan(const PlanInputs& inputs);

// The certificate in terms of the plan's ops: view ops whose base the prefix has made belong to it.
plan::BoundCertificate write_certificate(const ir::Graph& graph, const analysis::ScheduleView& view,
                                         const plan::CutCertificate& cut);

}  // namespace lowtide::pipeline
