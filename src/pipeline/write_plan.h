// Puts a schedule and addresses together with the graph into the executable Plan.
//
// Tests: claims_test.cc, optimize_test.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/schedule_view.h"
#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/buffer_view.h"
#include "plan/pack_problem.h"
#include "plan/plan.h"
#include "plan/sequence_simulator.h"

namespace lowtide::pipeline {

struct PlanInputs {
  const ir::Graph& graph;
  const analysis::ScheduleView& view;
  const analysis::OpCosts& costs;
  std::span<const plan::SchedAction> sequence;
  const plan::SequenceProfile& profile;  // of the sequence
  const BufferView& buffers;
  const plan::PackOutcome& packing;          // of buffers.problem
  std::span<const plan::PackOutcome> slots;  // of buffers.slots
  int64_t alignment_bytes = 64;
  std::vector<std::string> slow_tier_names = {"host"};  // by tier
};

// Everything but claims and provenance. Where anything moves, all slow tiers are listed, so that
// bounds can be checked against all that could have been used. A view runs in the step after each
// run that makes its base (of residents: first of all, or after their first load). What a load
// brings is waited for right before its first use. Error: kInput, naming what is still symbolic.
Result<plan::Plan> write_plan(const PlanInputs& inputs);

}  // namespace lowtide::pipeline
