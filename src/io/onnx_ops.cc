#include "io/onnx_ops.h"

#include "io/host_eval.h"
#include "io/onnx_peephole.h"

namespace lowtide::io {

const ConvertRow* find_conversion(std::string_view op_type) {
  for (const std::span<const ConvertRow> family :
       {elementwise_conversions(), product_conversions(), network_conversions(),
        reduction_conversions(), movement_conversions(), attention_conversions()})
    for (const ConvertRow& row : family)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

bool is_taken(const OnnxNode& node) {
  if (node.domain != "" && node.domain != kPeepholeDomain) return false;
  const bool read_by_the_door =
      node.op_type == "Constant" || node.op_type == "Shape" || node.op_type == "Size";
  return read_by_the_door || find_conversion(node.op_type) != nullptr || is_folded(node.op_type);
}

}  // namespace lowtide::io
