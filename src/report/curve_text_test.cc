// The curve of a plan by hand, in blocks and plain, and that its peak is always shown.
#include "report/curve_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/testing/small_plans.h"

namespace lowtide::report {
namespace {

TEST(CurveText, BlocksPlainAndColours) {
  const Plan plan = plan_with_a_rerun();  // 0.25 s each of 320, 320, 384 bytes, then 448
  const CurveStyle style{.columns = 6, .rows = 2, .blocks = true, .colours = false};
  EXPECT_EQ(curve_text(plan, style),
            "      448 B |▃▃▃▃▆█\n"
            "            |██████\n"
            "          0 +------ 750.0 ms\n");
  CurveStyle plain = style;
  plain.blocks = false;
  EXPECT_EQ(curve_text(plan, plain),
            "      448 B |    ##\n"
            "            |######\n"
            "          0 +------ 750.0 ms\n");
  CurveStyle coloured = style;
  coloured.colours = true;
  EXPECT_NE(curve_text(plan, coloured).find("\x1b[33m█\x1b[0m"), std::string::npos);
}

TEST(CurveText, TheHighestStepOfEachSliceIsShown) {
  const Plan plan = plan_with_a_rerun();
  for (int slices : {1, 2, 3, 7, 100}) {
    const std::vector<int64_t> curve = sliced_curve(plan, slices);
    ASSERT_EQ(curve.size(), static_cast<size_t>(slices));
    EXPECT_EQ(*std::max_element(curve.begin(), curve.end()), 448);
    EXPECT_GE(*std::min_element(curve.begin(), curve.end()), 320);
  }
}

TEST(CurveText, NothingOfNothing) {
  EXPECT_EQ(curve_text(Plan(), {}), "");
  EXPECT_EQ(curve_text(training_plan(), {.columns = 0}), "");
  EXPECT_NE(curve_text(training_plan(), {}), "") << "ops without times";
}

}  // namespace
}  // namespace lowtide::report
