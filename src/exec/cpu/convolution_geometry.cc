#include "exec/cpu/convolution_geometry.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

Result<ConvGeometry> geometry_of(const OpDesc& op, const TensorDesc& data,
                                 const TensorDesc& weights, const TensorDesc& result) {
  ConvGeometry g{.data = data, .weights = weights, .result = result, .weight_dims = weights.dims};
  const size_t rank = data.dims.size();
  if (rank < 3 || rank > 5 || weights.dims.size() != rank || result.dims.size() != rank)
    return unsupported(op, "one to three spatial dims, the same for all operands");
  const size_t spatial = rank - 2;
  g.strides = list_attr(op, "strides", Dims(spatial, 1));
  g.dilations = list_attr(op, "dilations", Dims(spatial, 1));
  const Dims pads = list_attr(op, "pads", Dims(2 * spatial, 0));
  if (g.strides.size() != spatial || g.dilations.size() != spatial || pads.size() != 2 * spatial)
    return unsupported(op, "strides, dilations or pads do not match the spatial dims");
  g.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  g.pads_end.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  for (int64_t& dilation : g.dilations) --dilation;
  g.group = int_attr(op, "group", 1);
  if (g.group < 1 || weights.dims[0] % g.group != 0)
    return unsupported(op, "the group does not divide the channels");
  if (g.group > 1) {
    g.weight_dims[0] /= g.group;
    g.weight_dims.insert(g.weight_dims.begin(), g.group);
  }
  return g;
}

}  // namespace

Result<ConvGeometry> conv_geometry(const OpDesc& op) {
  if (op.kind == "Conv") return geometry_of(op, *op.inputs[0], *op.inputs[1], op.outputs[0]);
  if (op.kind == "ConvDataGrad")
    return geometry_of(op, op.outputs[0], *op.inputs[1], *op.inputs[0]);
  return geometry_of(op, *op.inputs[0], op.outputs[0], *op.inputs[1]);
}

}  // namespace lowtide::exec_cpu
