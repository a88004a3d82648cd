// A front as a report shows it, and read from the lines that `lowtide sweep -o PREFIX` writes to
// PREFIX.jsonl ("sweep" in docs/formats.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lowtide/api.h"
#include "plan/plan.h"

namespace lowtide::report {

struct SweptFront {
  std::string model = {};
  std::map<std::string, int64_t, std::less<>> dims = {};
  std::vector<FrontPoint> points = {};  // budgets descending
  std::optional<size_t> knee = {}, chosen = {};
};

// Error: kInput, naming origin, the line and the member: no such lines, or a front of another model
// or of other sizes than the plan's.
Result<SweptFront> read_front(std::string_view lines, const std::string& origin,
                              const plan::Plan& plan);

}  // namespace lowtide::report
