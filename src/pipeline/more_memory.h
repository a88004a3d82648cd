// What a little more memory would buy: the same search at a larger budget, from the schedule that
// was found, with a tenth of the work. Addresses are not searched for; what the plan's own packing
// lost is left aside instead.
//
// Tests: optimize_test.cc.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/schedule_view.h"
#include "pipeline/optimize.h"
#include "pipeline/solution.h"

namespace lowtide::pipeline {

// The next budget is the present one and a tenth of it. `order`: each op once; `solution` keeps the
// present one; `unlimited` needs neither reruns nor transfers.
MoreMemory with_more_memory(const analysis::ScheduleView& view, const OptimizeOptions& options,
                            std::span<const plan::SchedOpId> order, const Solution& solution,
                            const Solution& unlimited);

}  // namespace lowtide::pipeline
