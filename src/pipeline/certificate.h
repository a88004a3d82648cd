// Certificates of problems in terms of the plan that is made of them.
#pragma once

#include "analysis/schedule_view.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::pipeline {

// The same evidence with the ids of the plan of `graph`. A plan's ops are more: view ops whose base
// the peak cut's prefix has made belong to it.
plan::Certificate in_plan(const ir::Graph& graph, const analysis::ScheduleView& view,
                          const plan::ProblemCertificate& certificate);

}  // namespace lowtide::pipeline
