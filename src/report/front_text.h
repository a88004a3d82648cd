// A front as a table, as JSON, and as JSON lines (docs/formats.md, "sweep").
//
// Tests: src/api/front_test.cc, tests/python/test_sweep.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lowtide/api.h"
#include "plan/plan.h"

namespace lowtide::report {

// What is told of a front; it borrows.
struct FrontView {
  const plan::Plan& unlimited;            // without a budget
  const std::vector<FrontPoint>& points;  // budgets descending
  int64_t floor_bytes = 0;
  std::optional<size_t> knee = {}, chosen = {};
  double planning_seconds = 0;
};

std::string front_text(const FrontView& front);
std::string front_json(const FrontView& front);
// One point a line, each with the model and its sizes.
std::string front_lines(const FrontView& front);

}  // namespace lowtide::report
