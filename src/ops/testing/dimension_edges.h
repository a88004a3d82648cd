// MAGIS's dimension graph (section 4.1) of one op, from its axis map: what tests of the rows read
// most easily. Planning goes by the axis map itself (fission/classes.h says why).
#pragma once

#include <vector>

#include "ops/op_table.h"

namespace lowtide::ops {

// One axis links an input dimension with an output dimension or a reduction. Only axes that part()
// can split have edges; a window has one along its position.
struct DimEdge {
  int input = 0, input_dim = 0;
  int output = -1, output_dim = -1;  // -1: a reduction axis of the op
  int axis = 0;
  LinkKind kind = LinkKind::kDirect;
};
// Error: as axis_map.
Result<std::vector<DimEdge>> dimension_edges(const Instance& instance);

}  // namespace lowtide::ops
