// The text form of a schedule (plan/sequence_text.h), read back.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

// Error: kInput, one line with `origin`, the line number and the word. Whether the ops and values
// exist is for simulate_sequence to say.
Result<std::vector<SchedAction>> parse_sequence(std::string_view text, std::string_view origin);

}  // namespace lowtide::plan
