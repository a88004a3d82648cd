// Rows of its own for each part of a scatter. The positions of a window that lies in a result (the
// data gradient of a convolution, the gradients of pooling) add into rows that overlap; a part of
// the positions would make a slice that others overlap. Turned round, each row is made once: a part
// has rows of its own, as many for each position as the stride says, and reads all positions that
// reach them, a few more than its share; what these add to rows of others is cut off as padding is.
//
//     positions   0  1  2 | 3  4  5          a kernel of 3, stride 1, pad 1
//     rows        0  1  2 | 3  4  5
//     read        0  1  2  3 | 2  3  4  5    by the first part, by the second
//
// Possible where numbers are constant, windows leave no gap, every position has rows, and cutting
// rows off changes nothing else (Row::cuts_off).
//
// Tests: axes_test.cc, src/exec/ref/fission_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/interval.h"
#include "ops/row.h"

namespace lowtide::ops {

struct OwnRows {
  int64_t stride = 1, pad = 0;
  int64_t reach = 1;      // rows from a window's first to its last tap
  int64_t positions = 0;  // of the whole axis
  int64_t rows = 0;       // of the whole dimension

  // Those of a part of the axis.
  Interval of(Interval positions) const;
  // The positions that reach some rows.
  Interval reaching(Interval rows) const;
  // What of the windows of these positions lies before (begin) and behind (end) the rows.
  Interval pads(Interval positions, Interval rows) const;
  // Positions that a part reads before and behind its own.
  int64_t halo_low() const { return (reach - 1 - pad) / stride; }
  int64_t halo_high() const { return (pad + stride - 1) / stride; }
};

// Nothing where parts of that axis have none.
std::optional<OwnRows> own_rows(const Row& row, const Signature& signature,
                                const Instance& instance, int axis);

}  // namespace lowtide::ops
