// What exported programs need beside ONNX's ops (domain "lowtide", pt2_lower.h).
//
// Opaque: an op of somebody else's. Its types are those that the file declares of its outputs.
// Sizes: a vector of expressions, such as a view's shape, known like any shape that is computed.
#include <fmt/format.h>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/onnx_peephole.h"

namespace lowtide::io {
namespace {

Status opaque(NodeCall& call) {
  std::vector<ir::ValueId> inputs;
  for (size_t i = 0; i < call.inputs(); ++i) {
    LT_ASSIGN(const ir::ValueId x, call.value(i));
    inputs.push_back(x);
  }
  std::string types;
  ir::Dims ranks, dims;
  const size_t outputs = call.node().outputs.size();
  for (size_t i = 0; i < outputs; ++i) {
    const OnnxValueInfo* info = call.declared(i);
    if (info == nullptr || !info->dtype || !info->has_shape)
      return error(ErrorCode::kInput, fmt::format("nothing is said of its output {}", i));
    types += fmt::format("{}{}", types.empty() ? "" : " ", name(*info->dtype));
    ranks.emplace_back(static_cast<int64_t>(info->dims.size()));
    for (const auto& dim : info->dims) {
      if (!dim) return error(ErrorCode::kInput, fmt::format("a dim of output {} is not told", i));
      dims.push_back(dim->substitute(call.bindings()));
    }
  }
  ir::Attrs attrs = {{"op", word(word_attr(call.node(), "op", "?"))},
                     {"types", word(types)},
                     {"ranks", ranks},
                     {"dims", dims}};
  return call.result(word_attr(call.node(), "kind", "Opaque"), std::move(inputs), std::move(attrs),
                     outputs);
}

Status sizes(NodeCall& call) {
  std::vector<sym::Expr> values;
  const auto found = call.node().attrs.find("sizes");
  if (found == call.node().attrs.end()) return error(ErrorCode::kInput, "has no sizes");
  for (const std::string& text : found->second.words) {
    LT_ASSIGN(const sym::Expr size, sym::parse_expr(text));
    values.push_back(size.substitute(call.bindings()));
  }
  call.set_host(0, host_vector(std::move(values)));
  return {};
}

constexpr ConvertRow kExportedRows[] = {{kOpaqueOp, 0, opaque}, {kSizesOp, 0, sizes}};

}  // namespace

std::span<const ConvertRow> exported_conversions() {
  return kExportedRows;
}

}  // namespace lowtide::io
