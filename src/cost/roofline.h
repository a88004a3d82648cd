// Seconds of one run of an op: the roofline (Williams, Waterman and Patterson 2009) over the work
// that the op table derives.
//
//     seconds = launch + max( flops / flops_per_second(class), bytes / bytes_per_second ) /
//     efficiency(kind)
//
// Views take no time. This is the one cost table that scores every method of this project until
// kernel times are measured.
#pragma once

#include "base/id.h"
#include "base/result.h"
#include "cost/device.h"
#include "ir/graph.h"

namespace lowtide::cost {

// All dims must be constant. Error: kInput, naming the op and its value whose size is symbolic
// or beyond 64 bits.
Result<double> op_seconds(const ir::Graph& graph, ir::OpId op, const DeviceProfile& device);
Result<IdVector<ir::OpId, double>> all_op_seconds(const ir::Graph& graph,
                                                  const DeviceProfile& device);

}  // namespace lowtide::cost
