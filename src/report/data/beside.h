// What one plan does that another of the same model does not: the tensors, by name, that one keeps
// and the other makes again or moves.
//
// Internal to src/report/data.
//
// Tests: report_data_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace lowtide::report {

// Largest first. A name that several storages have stands for the last of them.
nlohmann::ordered_json beside_data(const plan::Plan& plan, const plan::Plan& other);

}  // namespace lowtide::report
