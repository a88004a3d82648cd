#include "io/onnx_ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "io/convert_deformable.h"
#include "io/convert_indexing.h"
#include "io/convert_recurrent.h"
#include "io/convert_state.h"
#include "io/host_eval.h"
#include "io/onnx_peephole.h"
#include "io/onnx_signatures.h"

namespace lowtide::io {
namespace {

constexpr size_t kNodesShown = 8;

}  // namespace

std::vector<std::span<const ConvertRow>> conversion_families() {
  return {elementwise_conversions(), activation_conversions(), product_conversions(),
          window_conversions(),      network_conversions(),    reduction_conversions(),
          movement_conversions(),    resampling_conversions(), indexing_conversions(),
          einsum_conversions(),      attention_conversions(),  loss_conversions(),
          quantized_conversions(),   recurrent_conversions(),  state_conversions(),
          deformable_conversions()};
}

const ConvertRow* find_conversion(std::string_view op_type) {
  for (const std::span<const ConvertRow> family : conversion_families())
    for (const ConvertRow& row : family)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

bool is_taken(const OnnxNode& node) {
  if (!node.domain.empty() && node.domain != kPeepholeDomain) return false;
  const bool read_by_the_door = node.op_type == "Constant" || node.op_type == "Shape" ||
                                node.op_type == "Size" || node.op_type == "If";
  return read_by_the_door || find_conversion(node.op_type) != nullptr || is_folded(node.op_type);
}

Status check_ops(const OnnxModel& model) {
  std::map<std::string, std::vector<std::string>> refused;
  for (const OnnxNode& node : model.nodes) {
    if (is_taken(node)) continue;
    const std::string type = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    refused[type].push_back(node.name.empty() && !node.outputs.empty() ? node.outputs[0]
                                                                       : node.name);
  }
  if (refused.empty()) {
    for (const OnnxNode& node : model.nodes)
      if (auto status = check_signature(node); !status)
        return node_error(model, node, status.error());
    return {};
  }
  std::string text;
  for (const auto& [type, nodes] : refused) {
    const size_t shown = std::min(nodes.size(), kNodesShown);
    text += fmt::format(
        "{}{} {} ({}{})", text.empty() ? "" : ", ", type, nodes.size(),
        fmt::join(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(shown), " "),
        shown < nodes.size() ? " ..." : "");
  }
  return error(ErrorCode::kInput, fmt::format("{}: unsupported ops: {}", model.origin, text));
}

}  // namespace lowtide::io
