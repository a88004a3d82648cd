// The step of a model in one part: what a plan in parts is held against (compare_whole.h). A plan
// file says with which options it was made (plan::Plan::provenance) and for which sizes, so that
// the model's file is all that is needed to plan the same step again, without parts and without a
// budget.
//
// Tests: tests/python/test_compare_whole.py.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/plan.h"
#include "verify/parts.h"

namespace lowtide {

// Whether some op of the plan's step was cut in parts when it was made.
bool in_parts(const plan::Plan& plan);
// And some op does: a split to be chosen may have left the step whole.
bool runs_parts(const plan::Plan& plan);

// The file name of the model that a plan in parts was made of; empty where the plan says none.
std::string model_file_of(const plan::Plan& plan);
// A file of that name beside the plan, in `model_folder` or in the working folder, the first there
// is; empty where there is none.
std::string model_beside(const plan::Plan& plan, const std::string& plan_file,
                         const std::string& model_folder);

// `file`: the model (an ONNX file or graph text) that `plan` was made of, or a plan of it (.lt).
// Error: as Model::read, Plan::make and Plan::load; kUsage, where a plan is itself in parts or does
// not verify.
Result<plan::Plan> whole_step(const plan::Plan& plan, const std::string& file);

// Whether the plan computes that step, by definition (verify/parts.h). `model`: an ONNX file or
// graph text. Error: as Model::read; kUsage for a plan file.
Result<verify::PartsReport> verify_against(const plan::Plan& plan, const std::string& model);

}  // namespace lowtide
