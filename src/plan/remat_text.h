// The `.remat` form of a problem under a budget, as captured training steps come:
//
//     ops values resident_bytes
//     cost_us may_recompute                         (a line per op, in a valid order; 0 or 1)
//     bytes producer k reader_1 ... reader_k        (a line per value)
//     edges
//     before after                                  (a line per edge: every run of `before`, also
//                                                   the repeated ones, before the run of `after`)
//
// It has no names, outputs, workspace, in-place pairs, budget or link; Lowtide's own form, in
// schedule_text.h, has.
#pragma once

#include <string_view>

#include "base/result.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

// Errors: kInput, one line that begins with `origin` (a file name) and the line number. The result
// passes plan::check. Memory is proportional to the text, whatever numbers it claims.
Result<ScheduleProblem> parse_remat_file(std::string_view text, std::string_view origin);

}  // namespace lowtide::plan
