// A schedule and the addresses for it.
//
// Tests: claims_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/schedule_view.h"
#include "base/result.h"
#include "pipeline/buffer_view.h"
#include "pipeline/optimize.h"
#include "plan/outcome.h"
#include "plan/sequence_simulator.h"

namespace lowtide::pipeline {

struct Solution {
  std::vector<plan::SchedAction> sequence;
  plan::SequenceProfile profile;
  BufferView buffers;
  plan::PackOutcome packing;
  std::vector<plan::PackOutcome> slots;  // by tier
  int64_t arena_bytes = 0;               // residents that stay, and the packing's height
};

// The profile and the buffers of a schedule, not yet packed. Error: kInput, where pieces cannot lie
// at their distances.
Result<Solution> unpacked(const analysis::ScheduleView& view,
                          std::vector<plan::SchedAction> sequence);

// As low as it gets, or, with a budget, the first packing found whose arena keeps it (the lowest
// found, if none does); the same in slow tiers and for their room. Error: kLimit, when the work
// ends before any packing is found.
Result<Solution> pack_schedule(const analysis::ScheduleView& view,
                               std::vector<plan::SchedAction> sequence,
                               const OptimizeOptions& options,
                               std::optional<int64_t> budget_bytes = {});

// Addresses for the best order; where they do not fit below the order's own peak, orders found with
// other seeds. Errors as above.
Result<Solution> pack_best_order(const analysis::ScheduleView& view,
                                 const plan::ScheduleOutcome& order,
                                 const OptimizeOptions& options);

}  // namespace lowtide::pipeline
