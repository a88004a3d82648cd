#include "cost/roofline.h"

#include <fmt/core.h>

#include <algorithm>

#include "ops/op_table.h"

namespace lowtide::cost {
namespace {

bool is_product(std::string_view kind) {
  const ops::Row* row = ops::find(kind);
  return row != nullptr && ops::traits(*row).product;
}

bool only_views(const ir::Graph& graph, const ir::Op& op) {
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(), [&](ir::ValueId output) {
           return graph.value(output).alias == ir::Alias::kView;
         });
}

}  // namespace

Result<double> op_seconds(const ir::Graph& graph, ir::OpId id, const DeviceProfile& device) {
  const ir::Op& op = graph.op(id);
  if (only_views(graph, op)) return 0.0;
  LT_ASSIGN(const ops::Work work, ops::work(ops::instance_of(graph, id)));
  const auto flops = work.flops.constant();
  const auto bytes = (work.bytes_read + work.bytes_written).constant();
  if (!flops || !bytes)
    return error(
        ErrorCode::kInput,
        fmt::format("op '{}' has a symbolic size; bind its symbols first (--dim name=size)",
                    op.name));
  const double rate =
      is_product(op.kind) ? device.matmul_flops_per_second : device.vector_flops_per_second;
  const auto known = device.efficiency.find(op.kind);
  const double efficiency = known == device.efficiency.end() ? 1.0 : known->second;
  const double busy = std::max(static_cast<double>(*flops) / rate,
                               static_cast<double>(*bytes) / device.bytes_per_second);
  return device.launch_seconds + busy / efficiency;
}

Result<IdVector<ir::OpId, double>> all_op_seconds(const ir::Graph& graph,
                                                  const DeviceProfile& device) {
  IdVector<ir::OpId, double> seconds(graph.op_count());
  for (ir::OpId id : graph.ops()) {
    LT_ASSIGN(seconds[id], op_seconds(graph, id, device));
  }
  return seconds;
}

}  // namespace lowtide::cost
