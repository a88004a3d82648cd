// Options of the C ABI: a JSON object whose keys are fields of an options struct. What is absent
// keeps its default; an unknown key or a value of the wrong type is refused with its name.
//
// Tests: c_api_test.cc.
#pragma once

#include <string_view>

#include "base/result.h"
#include "lowtide/api.h"

namespace lowtide {

// Each takes "" as an object without keys. Error: kUsage.
Result<ReadOptions> parse_read_options(std::string_view json);
Result<PlanOptions> parse_plan_options(std::string_view json);
Result<SweepOptions> parse_sweep_options(std::string_view json);
Result<RunOptions> parse_run_options(std::string_view json);

}  // namespace lowtide
