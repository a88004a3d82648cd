// FLOPs and bytes of an instance. FLOPs: the product of the extents of all axes that the op walks
// (a dimension chosen by data is not walked), times the row's cost per loop point. What costs
// nothing per point has none, and its points are not counted: pieces and coupled axes are not
// walked one within the other, so their product would be far beyond the elements that there are.
// Each bias or accumulator adds one addition per result element. Bytes: every operand touched once,
// except for what is not touched: the rest of a sliced or gathered input, and anything of a view.
// Of a strided view whole cache lines are read. Of a destination the slice counts alone: the rest
// is there already.
#include <algorithm>

#include "ops/bind.h"
#include "ops/row.h"
#include "sym/product.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

Expr storage_bytes(const Type& type) {
  if (!type.layout.blocked.empty()) return type.layout.blocked_bytes;
  return product(type.dims) * size_bytes(type.dtype);
}

Expr loop_flops(const Signature& signature, int64_t per_point) {
  if (per_point == 0) return 0;
  ir::Dims walked;
  for (const SignatureAxis& axis : signature.axes)
    if (!axis.chosen) walked.push_back(*axis.extent);
  return product(walked) * per_point;
}

// Whether an op walks its operands in the order of its result, as elementwise ops do. Products,
// reductions and what only moves elements choose their own order.
bool follows_result(const Bound& bound, size_t i) {
  const Traits& traits = bound.row->traits;
  if (traits.product || (traits.carries && words_of_row(*bound.row).in_place.empty())) return false;
  const auto walked = [&](int axis) {
    return std::any_of(bound.signature.outputs.begin(), bound.signature.outputs.end(),
                       [&](const OperandIndex& output) {
                         return std::any_of(output.begin(), output.end(), [&](const DimIndex& dim) {
                           return std::find(dim.axes.begin(), dim.axes.end(), axis) !=
                                  dim.axes.end();
                         });
                       });
  };
  const OperandIndex& index = *bound.signature.inputs[i];
  return std::all_of(index.begin(), index.end(), [&](const DimIndex& dim) {
    return std::all_of(dim.axes.begin(), dim.axes.end(), walked);
  });
}

// Of a strided operand: an element that stands for many counts once, and where neighbours on the
// way do not lie side by side, each brings the rest of its line with it. The way leads along the
// innermost dimension of the result, or along the operand's nearest neighbours.
Expr strided_bytes(const Type& input, ir::Dims touched, bool in_order) {
  constexpr int64_t kLineBytes = 64;
  const int64_t bytes = size_bytes(input.dtype);
  int64_t apart = 0;
  for (size_t d = 0; d < touched.size(); ++d) {
    const int64_t stride = input.layout.strides[d];
    const bool single = touched[d] == Expr(1);
    if (stride == 0) touched[d] = 1;
    if (in_order && !single) apart = stride;
    if (!in_order && stride > 0 && (apart == 0 || stride < apart)) apart = stride;
  }
  apart = std::clamp<int64_t>(apart, 1, std::max<int64_t>(1, kLineBytes / bytes));
  return product(touched) * bytes * apart;
}

Expr bytes_read(const Bound& bound, const Instance& instance, size_t i, const Expr& results) {
  const Type& input = *instance.inputs[i];
  if (static_cast<int>(i) == bound.row->shape_only) return 0;
  if (!input.layout.blocked.empty()) return storage_bytes(input);
  const OperandIndex& index = *bound.signature.inputs[i];
  const bool chosen = std::any_of(index.begin(), index.end(), [](const DimIndex& dim) {
    return dim.form == LinkKind::kChosen;
  });
  const bool picked = chosen || static_cast<int>(i) == bound.row->picked;
  if (picked && i < own_operands(*bound.row, instance)) return results * size_bytes(input.dtype);
  ir::Dims touched;
  for (size_t d = 0; d < index.size(); ++d) {
    const bool sliced = index[d].form == LinkKind::kShift && !index[d].pads;
    touched.push_back(sliced ? *bound.signature.axes[static_cast<size_t>(index[d].axes[0])].extent
                             : input.dims[d]);
  }
  if (input.layout.strided()) return strided_bytes(input, touched, follows_result(bound, i));
  return product(touched) * size_bytes(input.dtype);
}

}  // namespace

namespace {

Result<Work> work_of(const Instance& instance) {
  LT_ASSIGN(const auto found, bind_instance(instance));
  const Bound& bound = *found;
  if (!bound.outputs) return tl::unexpected<Error>(bound.outputs.error());
  const std::vector<OutputType>& outputs = *bound.outputs;
  const Expr results = outputs.empty() ? Expr(0) : product(outputs[0].type.dims);
  Work total;
  total.flops = loop_flops(bound.signature, bound.row->flops);
  if (bound.row->traits.opaque) {
    LT_ASSIGN(total.flops, int_attr(instance, "flops", 0));
  }
  for (int added : words_of_row(*bound.row).added) {
    const auto i = static_cast<size_t>(added);
    if (i < instance.inputs.size() && instance.inputs[i]) total.flops = total.flops + results;
  }
  for (const auto& [input, output] : accumulators(instance))
    total.flops = total.flops + product(outputs[static_cast<size_t>(output)].type.dims);
  if (!outputs.empty() && ir::is_view(outputs[0].alias)) return total;
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    if (instance.inputs[i])
      total.bytes_read = total.bytes_read + bytes_read(bound, instance, i, results);
  for (const OutputType& output : outputs)
    total.bytes_written = total.bytes_written + storage_bytes(output.type);
  return total;
}

}  // namespace

Result<Work> work(const Instance& instance) {
  const Row* row = find(instance.kind);
  if (row == nullptr || !has_attr(instance, "into")) return work_of(instance);
  LT_RETURN_IF_ERROR(infer(instance));
  return work_of(slice_op(*row, instance).instance(instance.kind));
}

std::optional<GivenCost> given_cost(const ir::Op& op) {
  const Row* row = find(op.kind);
  if (row == nullptr || !row->traits.opaque) return std::nullopt;
  const Instance instance = {.kind = op.kind, .attrs = &op.attrs, .inputs = {}};
  GivenCost cost;
  if (has_attr(instance, "seconds")) cost.seconds = real_attr(instance, "seconds").value_or(0);
  cost.workspace_bytes = int_attr(instance, "workspace", 0).value_or(0);
  return cost;
}

}  // namespace lowtide::ops
