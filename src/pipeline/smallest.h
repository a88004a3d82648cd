// The smallest arena that little work finds: what a refused budget is told, and the last resort for
// one that is only just enough.
//
// The bytes of a schedule are lowered first, by halving the distance between the floor and the
// lowest schedule known, each search starting from that one. The lowest schedules then get
// addresses. Nothing here depends on the budget that was asked for, so what is named to a user who
// asked for less is found again when he asks for exactly that.
//
// Tests: budget_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/schedule_view.h"
#include "base/result.h"
#include "pipeline/optimize.h"
#include "pipeline/solution.h"

namespace lowtide::pipeline {

// With a fixed part of the work of `options`. `unlimited`: as for fit_budget; the answer's arena is
// below its one, or there is no answer. `floor`: bytes that every schedule is proven to need.
Result<std::optional<Solution>> find_smallest(const analysis::ScheduleView& view,
                                              const OptimizeOptions& options,
                                              const Solution& unlimited, int64_t floor);

}  // namespace lowtide::pipeline
