#include "cost/roofline.h"

#include <fmt/core.h>

#include <algorithm>

#include "cost/tiles.h"
#include "ops/op_table.h"

namespace lowtide::cost {
namespace {

bool is_product(std::string_view kind) {
  const ops::Row* row = ops::find(kind);
  return row != nullptr && ops::traits(*row).product;
}

bool only_views(const ir::Graph& graph, const ir::Op& op) {
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ir::ValueId output) { return ir::is_view(graph.value(output).alias); });
}

std::string dims_text(const ir::Value& value) {
  std::string text;
  for (const sym::Expr& dim : value.dims)
    text += (text.empty() ? "" : ", ") + (dim.poisoned() ? "too large" : sym::print(dim));
  return "[" + text + "]";
}

// Why the work of an op is no number: a symbol that has no size, or sizes whose product is beyond
// 64 bits.
tl::unexpected<Error> no_number(const ir::Graph& graph, const ir::Op& op) {
  for (const auto* values : {&op.inputs, &op.outputs})
    for (ir::ValueId id : *values) {
      if (!id.valid()) continue;
      const ir::Value& value = graph.value(id);
      const sym::Expr bytes = ir::size_bytes(value);
      if (bytes.poisoned())
        return error(ErrorCode::kInput,
                     fmt::format("op '{}' ({}): the size of value '{}' {} in bytes does not fit "
                                 "into 64 bits; make its dimensions smaller",
                                 op.name, op.kind, value.name, dims_text(value)));
      if (!bytes.constant())
        return error(ErrorCode::kInput,
                     fmt::format("op '{}' ({}): value '{}' {} has a symbolic size; bind its "
                                 "symbols first (--dim name=size)",
                                 op.name, op.kind, value.name, dims_text(value)));
    }
  return error(ErrorCode::kInput,
               fmt::format("op '{}' ({}): its number of operations does not fit into 64 bits; make "
                           "its dimensions smaller",
                           op.name, op.kind));
}

// As much of an op's description as its class and its tiles depend on.
plan::OpDesc operands(const ir::Graph& graph, const ir::Op& op) {
  const auto type = [&](ir::ValueId id) {
    plan::TensorDesc desc;
    for (const sym::Expr& dim : graph.value(id).dims)
      desc.dims.push_back(dim.constant().value_or(0));
    return desc;
  };
  plan::OpDesc desc;
  desc.kind = op.kind;
  for (const auto& [attr, value] : op.attrs)
    if (const auto* number = std::get_if<int64_t>(&value)) desc.attrs[attr] = *number;
  for (ir::ValueId input : op.inputs)
    desc.inputs.push_back(input.valid() ? std::optional(type(input)) : std::nullopt);
  for (ir::ValueId output : op.outputs) desc.outputs.push_back(type(output));
  return desc;
}

}  // namespace

double roofline_seconds(std::string_view kind, KernelClass kernel_class, const OpWork& work,
                        const DeviceProfile& device) {
  double flops_rate =
      is_product(kind) ? device.matmul_flops_per_second : device.vector_flops_per_second;
  double bytes_rate = device.bytes_per_second;
  if (const auto found = device.classes.find(kernel_class); found != device.classes.end()) {
    const ClassRate& rate = found->second;
    if (rate.flops_per_second > 0) flops_rate = rate.flops_per_second;
    if (rate.bytes_per_second > 0) bytes_rate = rate.bytes_per_second;
    if (rate.cached_bytes_per_second > 0 && work.bytes <= static_cast<double>(device.cache_bytes))
      bytes_rate = rate.cached_bytes_per_second;
  }
  const auto known = device.efficiency.find(kind);
  const double efficiency = known == device.efficiency.end() ? 1.0 : known->second;
  const double busy = std::max(work.flops / flops_rate, work.bytes / bytes_rate);
  return device.launch_seconds + busy / efficiency;
}

double model_seconds(const plan::OpDesc& op, const OpWork& work, const DeviceProfile& device) {
  const double roofline = roofline_seconds(op.kind, kernel_class(op), work, device);
  if (device.cost_model != CostModel::kTiles || !device.tiles) return roofline;
  const auto shape = product_shape(op, work);
  if (!shape) return roofline;
  const double tiles = tile_seconds(*shape, *device.tiles, device.bytes_per_second);
  return std::max(roofline, device.launch_seconds + tiles);
}

Result<double> op_seconds(const ir::Graph& graph, ir::OpId id, const DeviceProfile& device) {
  const ir::Op& op = graph.op(id);
  if (only_views(graph, op)) return 0.0;
  if (const auto given = ops::given_cost(op); given && given->seconds) return *given->seconds;
  LT_ASSIGN(const ops::Work work, ops::work(ops::instance_of(graph, id)));
  const auto flops = work.flops.constant();
  const auto bytes = (work.bytes_read + work.bytes_written).constant();
  if (!flops || !bytes) return no_number(graph, op);
  return model_seconds(operands(graph, op),
                       {.flops = static_cast<double>(*flops), .bytes = static_cast<double>(*bytes)},
                       device);
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
