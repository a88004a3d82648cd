// Seconds of dense products by their output tiles, as libraries for GPUs make them: what a
// roofline does not see is that a small product does not fill a device.
//
// The output of a product is made in tiles whose sides are among a few; each processor of the
// device makes one at a time. So a product takes whole waves of tiles, the last one in full,
// however few tiles it has; edges count as whole tiles. Where there are few tiles the sum over k is
// split into slices: s times as many tiles with an s-th of the work, and the partial sums are
// written and read again. The best choice of tile and s is taken:
//
//     waves   = ceil( batch * ceil(m / tm) * ceil(n / tn) * s / processors )
//     seconds = waves * 2 tm tn up(k / s) / (flops_per_second / processors)
//             + (s > 1 ? 2 s batch m n * 4 bytes / bytes_per_second : 0)
//
// up: to whole steps of 32 along k. Longer in every extent is never faster: each choice is
// monotone, and no choice depends on the extents. The time of a kernel is this or the roofline's,
// whichever is more.
//
// Convolutions are products of as many rows as results have positions (implicit GEMM); k is what
// the FLOPs leave for it, so that of a data gradient with strides it is the mean over positions.
// Where an extent is 1 (matrix times vector, depthwise convolutions) other kernels run: the
// roofline.
//
// Tests: tiles_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "cost/device.h"
#include "cost/work.h"
#include "plan/op_desc.h"

namespace lowtide::cost {

// batch products of m x k with k x n.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0;
  double k = 0;
};

// None: the op is no dense product, or has an extent of 1. `work` is the op's.
std::optional<ProductShape> product_shape(const plan::OpDesc& op, const OpWork& work);

// Without the fixed cost of a launch.
double tile_seconds(const ProductShape& shape, const TileRates& tiles, double bytes_per_second);

}  // namespace lowtide::cost
