// The axis map of a signature that is already bound: what axis_map and part share.
#pragma once

#include "ops/row.h"

namespace lowtide::ops {

AxisMap map_of(const Bound& bound, const Instance& instance);

}  // namespace lowtide::ops
