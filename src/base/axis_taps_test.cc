// The matrices along one axis: examples by hand for every rule, and transposition.
#include "base/axis_taps.h"

#include <gtest/gtest.h>

namespace lowtide {
namespace {

// The matrix row by row, written out.
std::vector<std::vector<double>> dense(const AxisTaps& taps, int64_t extent) {
  std::vector<std::vector<double>> rows;
  for (size_t p = 0; p + 1 < taps.begin.size(); ++p) {
    rows.emplace_back(static_cast<size_t>(extent), 0.0);
    for (auto t = static_cast<size_t>(taps.begin[p]); t < static_cast<size_t>(taps.begin[p + 1]);
         ++t)
      rows.back()[static_cast<size_t>(taps.index[t])] += taps.weight[t];
  }
  return rows;
}

std::vector<int64_t> nearest(std::string_view coordinates, std::string_view rounding,
                             ResampledLine line) {
  return resample_taps({.mode = "nearest", .coordinates = coordinates, .nearest = rounding}, line)
      .index;
}

using Indices = std::vector<int64_t>;
using Rows = std::vector<std::vector<double>>;

TEST(AxisTaps, NearestFollowsItsRounding) {
  EXPECT_EQ(nearest("asymmetric", "floor", {.from = 2, .to = 4}), (Indices{0, 0, 1, 1}));
  EXPECT_EQ(nearest("half_pixel", "round_prefer_floor", {.from = 4, .to = 2}), (Indices{0, 2}));
  EXPECT_EQ(nearest("half_pixel", "round_prefer_ceil", {.from = 4, .to = 2}), (Indices{1, 3}));
  EXPECT_EQ(nearest("half_pixel", "ceil", {.from = 2, .to = 4}), (Indices{0, 1, 1, 1}));
  EXPECT_EQ(nearest("align_corners", "floor", {.from = 4, .to = 3}), (Indices{0, 1, 3}));
  // Before opset 11: up when shrinking, down when growing.
  EXPECT_EQ(nearest("asymmetric", "simple", {.from = 5, .to = 3}), (Indices{0, 2, 4}));
  EXPECT_EQ(nearest("asymmetric", "simple", {.from = 3, .to = 5}), (Indices{0, 0, 1, 1, 2}));
}

TEST(AxisTaps, LinearClampsAtTheEdges) {
  const Resample how{.mode = "linear", .coordinates = "half_pixel", .nearest = "floor"};
  EXPECT_EQ(dense(resample_taps(how, {.from = 2, .to = 4}), 2),
            (Rows{{1, 0}, {0.75, 0.25}, {0.25, 0.75}, {0, 1}}));
}

TEST(AxisTaps, AntialiasWidensTheFilterWhenShrinking) {
  Resample how{.mode = "linear", .coordinates = "half_pixel", .nearest = "floor"};
  how.antialias = true;
  how.exclude_outside = true;
  // Around place 0.5 the triangle of reach 2 weighs 1/4, 3/4, 3/4, 1/4 at -1, 0, 1, 2.
  const Rows rows = dense(resample_taps(how, {.from = 4, .to = 2}), 4);
  EXPECT_NEAR(rows[0][0], 3.0 / 7, 1e-15);
  EXPECT_NEAR(rows[0][1], 3.0 / 7, 1e-15);
  EXPECT_NEAR(rows[0][2], 1.0 / 7, 1e-15);
  EXPECT_EQ(rows[0][3], 0);
}

TEST(AxisTaps, CubicExcludesOrRepeatsWhatLiesOutside) {
  Resample how{.mode = "cubic", .coordinates = "half_pixel", .nearest = "floor"};
  // Place -0.25: taps -2 to 1 with weights of Keys' kernel for a = -0.75.
  const double w[] = {-0.03515625, 0.26171875, 0.87890625, -0.10546875};
  EXPECT_NEAR(dense(resample_taps(how, {.from = 4, .to = 8}), 4)[0][0], w[0] + w[1] + w[2], 1e-12);
  how.exclude_outside = true;
  EXPECT_NEAR(dense(resample_taps(how, {.from = 4, .to = 8}), 4)[0][0], w[2] / (w[2] + w[3]),
              1e-12);
}

TEST(AxisTaps, ACropHasNoTapsOutside) {
  const Resample how{.mode = "linear", .coordinates = "tf_crop_and_resize", .nearest = "floor"};
  const AxisTaps taps = resample_taps(how, {.from = 3, .to = 3, .roi_begin = 0.5, .roi_end = 1.5});
  EXPECT_EQ(dense(taps, 3), (Rows{{0, 1, 0}, {0, 0, 1}, {0, 0, 0}}));
  EXPECT_EQ(taps.begin, (Indices{0, 1, 2, 2}));
}

TEST(AxisTaps, PadsRepeatTheLine) {
  EXPECT_EQ(pad_taps("reflect", 3, 2, 3).index, (Indices{2, 1, 0, 1, 2, 1, 0, 1}));
  EXPECT_EQ(pad_taps("edge", 3, 2, 1).index, (Indices{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(pad_taps("wrap", 3, 2, 4).index, (Indices{1, 2, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(pad_taps("reflect", 1, 1, 1).index, (Indices{0, 0, 0}));
  EXPECT_EQ(pad_taps("edge", 4, -1, 2).index, (Indices{1, 2, 3, 3, 3}));
}

TEST(AxisTaps, TheTransposeIsTheTransposedMatrix) {
  const Resample how{.mode = "cubic", .coordinates = "align_corners", .nearest = "floor"};
  const AxisTaps taps = resample_taps(how, {.from = 5, .to = 7});
  const Rows rows = dense(taps, 5), columns = dense(transposed(taps, 5), 7);
  for (size_t p = 0; p < 7; ++p)
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(rows[p][i], columns[i][p]);
}

TEST(AxisTaps, NumbersAreWords) {
  EXPECT_EQ(parse_reals("1.5,2").value(), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(parse_reals("").value(), std::vector<double>());
  EXPECT_EQ(print_reals(std::vector<double>{1.5, 2, 0.1}), "1.5,2,0.1");
  for (const char* text : {"1.5,", "x", "1;2", "1e999", "nan"})
    EXPECT_FALSE(parse_reals(text)) << text;
}

TEST(AxisTaps, UnknownWordsAreRefused) {
  EXPECT_EQ(
      check({.mode = "area", .coordinates = "half_pixel", .nearest = "floor"}).error().message,
      "mode 'area' is not known");
  EXPECT_TRUE(check({.mode = "cubic", .coordinates = "half_pixel", .nearest = "floor"}));
}

}  // namespace
}  // namespace lowtide
