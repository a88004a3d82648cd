// A picture of a sweep: memory against extra time. Cairo draws the same figure as SVG and as PNG.
//
// Tests: tests/python/test_sweep.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lowtide::report {

struct ParetoPoint {
  int64_t budget_bytes = 0;
  int64_t arena_bytes = 0;
  double extra = 0;        // step time over that of every op once, minus 1
  double bound_extra = 0;  // proven: no schedule within the budget adds less
};

struct ParetoPlot {
  std::string title, subtitle;
  std::vector<ParetoPoint> points;  // by budget, ascending
  int64_t before_bytes = 0;         // the ops in their given order: what a framework needs
  int64_t floor_bytes = 0;          // proven: no schedule needs less
  std::optional<size_t> chosen, knee;
};

// The picture's size in points; the PNG has kPngScale pixels for each.
inline constexpr int kPlotWidth = 820, kPlotHeight = 520, kPngScale = 2;

// Whole files. Error: kInternal, when Cairo fails.
Result<std::string> draw_svg(const ParetoPlot& plot);
Result<std::string> draw_png(const ParetoPlot& plot);

}  // namespace lowtide::report
