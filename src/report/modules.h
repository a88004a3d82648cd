// Which module of the model each storage belongs to. What an op makes belongs to the op's module.
// What was there before the step has no op: a parameter or an input belongs to the first forward op
// that reads it (through views and changes of layout), optimizer state and gradients without a
// module of their own to the parameter that they are updated with.
//
// Tests: report_test.cc.
#pragma once

#include <string>

#include "plan/plan.h"

namespace lowtide::report {

// Empty where the model names no module.
IdVector<plan::PlanStorageId, std::string> modules_of(const plan::Plan& plan);

}  // namespace lowtide::report
