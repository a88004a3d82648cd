#include "ops/testing/random_resampling.h"

#include <array>
#include <string>

#include "base/axis_taps.h"
#include "ops/testing/random_draw.h"

namespace lowtide::ops {
namespace {

template <size_t n>
std::string one_of(const std::array<const char*, n>& words, Rng& rng) {
  return words[rng.below(n)];
}

}  // namespace

// Scales are near the ratio of the extents, as rounding leaves them; a region reaches outside.
void draw_resize(RandomInstance& made, const ir::Dims& dims, Rng& rng) {
  ir::Dims axes, sizes;
  std::vector<double> scales, begins, ends;
  const bool gradient = made.kind == "ResizeGrad";
  for (size_t d = 0; d < dims.size(); ++d) {
    if (axes.size() < 3 && (d + 1 < dims.size() || !axes.empty()) && chance(rng, 2)) continue;
    const int64_t from = dims[d].constant().value_or(1), to = rng.between(1, 9);
    axes.emplace_back(static_cast<int64_t>(d));
    sizes.emplace_back(to);
    scales.push_back((static_cast<double>(gradient ? from : to) + 0.25) /
                     static_cast<double>(gradient ? to : from));
    begins.push_back(0.5 - rng.uniform());
    ends.push_back(0.75 + rng.uniform());
  }
  const std::string mode = one_of<3>({"nearest", "linear", "cubic"}, rng);
  made.attrs = {{"axes", axes}, {"sizes", sizes}, {"mode", mode}};
  made.attrs["coordinates"] = one_of<6>({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                         "align_corners", "asymmetric", "tf_crop_and_resize"},
                                        rng);
  if (mode == "nearest") {
    made.attrs["nearest"] =
        one_of<5>({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"}, rng);
  } else {
    made.attrs["antialias"] = int64_t{chance(rng, 3)};
    made.attrs["exclude_outside"] = int64_t{chance(rng, 3)};
    made.attrs["cubic_a"] = chance(rng, 2) ? -0.5 : -0.75;
  }
  if (chance(rng, 2)) made.attrs["scales"] = print_reals(scales);
  begins.insert(begins.end(), ends.begin(), ends.end());
  if (chance(rng, 2)) made.attrs["roi"] = print_reals(begins);
  if (chance(rng, 2)) made.attrs["extrapolation"] = 0.5;
}

void copy_nearest(RandomInstance& made) {
  made.attrs["mode"] = std::string("nearest");
  made.attrs["antialias"] = int64_t{0};
}

// Pads longer than the line, and now and then a cut.
void draw_pad_repeat(RandomInstance& made, const ir::Dims& dims, Rng& rng) {
  ir::Dims begins, ends;
  for (const sym::Expr& dim : dims) {
    const int64_t extent = dim.constant().value_or(1);
    const bool gradient = made.kind == "PadRepeatGrad", keeps = chance(rng, 3);
    const int64_t most = gradient ? (extent - 1) / 2 : 6;
    const bool cuts = chance(rng, 4) && extent > 1;
    begins.emplace_back(keeps ? 0 : cuts ? -1 : rng.between(0, most));
    ends.emplace_back(keeps ? 0 : rng.between(0, most));
  }
  made.attrs = {
      {"begins", begins}, {"ends", ends}, {"mode", one_of<3>({"reflect", "edge", "wrap"}, rng)}};
}

void draw_grid_sample(RandomInstance& made, Rng& rng) {
  const bool three = chance(rng, 3), gradient = made.kind == "GridSampleGrad";
  const int64_t images = rng.between(1, 2), channels = rng.between(1, 3);
  ir::Dims x = {images, channels}, grid = {images}, y = {images, channels};
  for (int d = 0; d < (three ? 3 : 2); ++d) {
    x.emplace_back(rng.between(1, 4));
    y.emplace_back(rng.between(1, 3));
    grid.push_back(y.back());
  }
  grid.emplace_back(three ? 3 : 2);
  made.inputs.clear();
  if (gradient) made.inputs.push_back(Type{DType::kF32, y, {}});
  made.inputs.push_back(Type{DType::kF32, x, {}});
  made.inputs.push_back(Type{DType::kF32, grid, {}});
  std::string mode = one_of<3>({"nearest", "linear", "cubic"}, rng);
  if (three && mode == "cubic") mode = "linear";
  made.attrs = {{"mode", mode},
                {"padding", one_of<3>({"zeros", "border", "reflection"}, rng)},
                {"align_corners", int64_t{chance(rng, 2)}},
                {"pixels", int64_t{chance(rng, 3)}}};
}

void draw_roi_align(RandomInstance& made, Rng& rng) {
  const int64_t boxes = rng.between(1, 3);
  ir::Dims x;
  for (int d = 0; d < 4; ++d) x.emplace_back(rng.between(1, 5));
  made.inputs = {Type{DType::kF32, x, {}}, Type{DType::kI64, {boxes}, {}},
                 Type{DType::kF32, {boxes, 4}, {}}};
  made.attrs = {{"mode", one_of<2>({"avg", "max"}, rng)},
                {"height", rng.between(1, 3)},
                {"width", rng.between(1, 3)},
                {"sampling_ratio", rng.between(0, 2)},
                {"scale", 1.5},
                {"half_pixel", int64_t{chance(rng, 2)}}};
}

int64_t draw_positions(RandomInstance& made, Rng& rng) {
  const ir::Dims& dims = made.inputs[0]->dims;
  ir::Dims kernel, strides, dilations, spatial;
  int64_t taps = 1;
  for (size_t d = 2; d < dims.size(); ++d) {
    const int64_t reach = rng.between(1, 3), stride = rng.between(1, 3), apart = rng.between(1, 2);
    kernel.emplace_back(reach);
    strides.emplace_back(stride);
    dilations.emplace_back(apart);
    spatial.push_back((dims[d] - 1) * sym::Expr(stride) + sym::Expr((reach - 1) * apart + 1));
    taps *= reach;
  }
  made.attrs = {{"kernel", kernel},
                {"strides", strides},
                {"dilations", dilations},
                {"input_spatial", spatial},
                {"columns_first", int64_t{chance(rng, 2)}}};
  return taps;
}

}  // namespace lowtide::ops
