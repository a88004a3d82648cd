// Writes results of a step where other programs read them: one .npy file per value and a
// manifest.json that names them.
//
// Tests: tests/python/test_cli.py.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace lowtide {

// Whether a value is a result of the step: an output, a parameter's gradient, or a new version of
// what was there before.
bool is_result(const plan::Plan& plan, plan::PlanValueId value);

// Row-major outputs that no op makes: an input, a weight, a folded constant. Nobody sees them being
// made.
std::vector<plan::PlanValueId> given_outputs(const plan::Plan& plan);

// Collects files in a folder, which is made if it is absent. Values must be row-major.
class Dump {
 public:
  Dump(const plan::Plan& plan, std::string folder) : plan_(plan), folder_(std::move(folder)) {}
  // Error: kUsage, naming the folder or file and the system's reason.
  Status open();
  Status add(plan::PlanValueId value, std::span<const std::byte> bytes);
  // Writes the manifest: a JSON list of {"file", "name", "dtype", "dims"}.
  Status close();

 private:
  const plan::Plan& plan_;
  std::string folder_;
  std::vector<plan::PlanValueId> written_;
};

}  // namespace lowtide
