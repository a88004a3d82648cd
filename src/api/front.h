// What a Front holds. For src/api and tools/ only.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lowtide/api.h"
#include "report/front_text.h"

namespace lowtide {

struct Front::State {
  std::vector<FrontPoint> points;          // budgets descending
  std::vector<std::optional<Plan>> plans;  // of the points
  std::optional<Plan> unlimited;           // there
  int64_t floor_bytes = 0;
  std::optional<size_t> knee, chosen;
  double planning_seconds = 0;
};

// The point farthest below the line from the one with the most memory to the one with the least:
// where less memory begins to cost more. None with fewer than three different plans, or where they
// nearly lie on a line.
std::optional<size_t> knee_of(const std::vector<FrontPoint>& points);

// What is told of it.
report::FrontView view_of(const Front::State& front);

}  // namespace lowtide
