#include "pipeline/numbers_by_bound.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "fission/classes.h"
#include "fission/passes.h"
#include "pipeline/least_time.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct NumberTuning {
  double hopeless = 0.1;  // a bound so far above the least one: more parts are not looked at
};
constexpr NumberTuning kByBound;

}  // namespace

Result<std::vector<Candidate>> numbers_by_bound(const ir::Graph& forward, const ir::Graph& step,
                                                const OptimizeOptions& options) {
  std::vector<Candidate> numbers;
  const auto is_late = [&, start = Clock::now()] {
    return options.schedule.remat.limits.stop_after(seconds_since(start));
  };
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  if (classes.empty()) return numbers;
  LT_ASSIGN(const fission::Passes passes, fission::passes_of(step, classes.front()));
  if (passes.count == 1) return numbers;
  double least = kAnyTime;
  for (const int64_t parts : kSplit.numbers) {
    Candidate candidate{.labels = {.parts = parts}, .fits = true};
    if (parts > classes.front().least_extent || is_late()) break;
    LT_ASSIGN(const std::optional<double> bound, least_seconds(forward, with(options, candidate)));
    if (!bound) continue;
    if (*bound > least * (1 + kByBound.hopeless)) break;
    least = std::min(least, *bound);
    candidate.seconds = *bound;
    numbers.push_back(std::move(candidate));
  }
  std::stable_sort(numbers.begin(), numbers.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return numbers;
}

}  // namespace lowtide::pipeline
