// The front of a step whose parts are chosen budget by budget (--split auto). First that of the
// whole step (front.h); then each budget under which that step takes longer than each op once, or
// has no plan, is planned in the parts that are best for it (split.h), and the faster plan stays.
// Parts that one budget found are tried for the next larger one, so less memory is never faster.
//
// Tests: tests/split_test.cc.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/front.h"

namespace lowtide::pipeline {

// `options.split` is not looked at. `floor_bytes` is that of all labels of the largest class. A
// plan's bound speaks of the step in its parts. Errors as of optimize_front.
Result<Front> optimize_front_in_parts(const ir::Graph& forward, const OptimizeOptions& options,
                                      const ChooseBudgets& choose);

}  // namespace lowtide::pipeline
