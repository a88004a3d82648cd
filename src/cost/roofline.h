// Seconds of one run of an op that nobody measured: the roofline (Williams, Waterman and Patterson
// 2009) over the work that the op table derives.
//
//     seconds = launch + max( flops / flops_per_second, bytes / bytes_per_second ) / efficiency
//
// The rates are those of the op's kernel class where the device profile has them, else the
// device's: one for products and convolutions, one for all others. Views take no time. With the
// device's cost model `tiles`, products and convolutions take at least what tiles.h says.
//
// Tests: cost_test.cc, tiles_test.cc.
#pragma once

#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "cost/device.h"
#include "cost/work.h"
#include "ir/graph.h"
#include "plan/op_desc.h"

namespace lowtide::cost {

double roofline_seconds(std::string_view kind, KernelClass kernel_class, const OpWork& work,
                        const DeviceProfile& device);

// By the device's cost model: that, or of dense products the time of their tiles where it is more.
// The operands' dims and attributes that are whole numbers are enough of a description.
double model_seconds(const plan::OpDesc& op, const OpWork& work, const DeviceProfile& device);

// All dims must be constant. Error: kInput, naming the op and its value whose size is symbolic
// or beyond 64 bits.
Result<double> op_seconds(const ir::Graph& graph, ir::OpId op, const DeviceProfile& device);
Result<IdVector<ir::OpId, double>> all_op_seconds(const ir::Graph& graph,
                                                  const DeviceProfile& device);

}  // namespace lowtide::cost
