// Where the bytes are: what is on the device at each compute step of a plan, by category and by
// tensor, for the planned order and for the order the ops came in (each buffer freed after its last
// use, nothing reused in place: what an eager framework does).
//
// Tests: report_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

struct TensorAtPeak {
  std::string name;
  std::string module;  // modules.h
  Category category = Category::kActivation;
  int64_t bytes = 0;
};

using CategoryBytes = std::array<int64_t, kCategories>;

struct MemoryProfile {
  // Present while each compute step runs, everything on the device; the same by category.
  std::vector<int64_t> step_bytes;
  std::vector<CategoryBytes> step_categories;
  std::vector<plan::PlanOpId> step_ops;
  std::vector<size_t> plan_steps;  // which step of the plan each is; empty for the given order
  int64_t peak_bytes = 0;
  size_t peak_step = 0;  // index into step_bytes, the first at the peak
  plan::PlanOpId peak_op;
  CategoryBytes by_category{};        // at the peak
  std::vector<TensorAtPeak> tensors;  // all at the peak, largest first (ties by name)
};

MemoryProfile profile_planned(const plan::Plan& plan);
MemoryProfile profile_as_given(const plan::Plan& plan);

}  // namespace lowtide::report
