// The text form of a schedule: words between blanks or line ends, one per action. A number alone is
// a run of that op; moves are
//
//     store:3  drop:3  load:3        of value 3
//     store:r1 drop:r1 load:r1       of resident 1
//     store:3@1                      to tier 1; without a word on it, tier 0
//
// so that a schedule without moves is its op numbers. Tests read it back:
// testing/sequence_parser.h.
#pragma once

#include <span>
#include <string>

#include "plan/schedule_problem.h"

namespace lowtide::plan {

// One line, words separated by one blank, without a line end.
std::string print(std::span<const SchedAction> sequence);

}  // namespace lowtide::plan
