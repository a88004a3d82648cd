// A memory curve of a few lines for a terminal: how full the device is over the step, with block
// characters where these can be shown and plain ones elsewhere.
//
//     600 MiB |          ▂▅▇█▇▅▃
//             |      ▁▄▇█████████▇▄
//             |▃▅▇████████████████████▇▅▃▂▁▁
//           0 +----------------------------- 812.3 ms
//
// A column is a slice of the step's time and as high as the most that is there during it, so that
// the peak is always seen. Steps that take no time belong to the slice in which they lie. What
// copies take from computing lies at no moment of the step, so it stands beside the step's end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

struct CurveStyle {
  int columns = 60, rows = 5;
  bool blocks = true;   // of UTF-8; else '#'
  bool colours = true;  // escape sequences: the columns at the peak stand out
};

// Empty for a plan without steps.
std::string curve_text(const plan::Plan& plan, const CurveStyle& style);

// The most bytes in each of so many slices of the step.
std::vector<int64_t> sliced_curve(const plan::Plan& plan, int slices);

}  // namespace lowtide::report
