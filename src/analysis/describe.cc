#include "analysis/describe.h"

#include <fmt/core.h>

namespace lowtide::analysis {
namespace {

Result<int64_t> number(const sym::Expr& size, std::string_view what) {
  if (const auto constant = size.constant()) return *constant;
  return error(ErrorCode::kInput,
               fmt::format("{} has the symbolic size {}; bind its symbols first (--dim name=size)",
                           what, sym::print(size)));
}

}  // namespace

Result<plan::TensorDesc> describe(const ir::Value& value) {
  plan::TensorDesc desc;
  desc.dtype = value.dtype;
  desc.layout = value.layout;
  for (const sym::Expr& dim : value.dims) {
    LT_ASSIGN(const int64_t size, number(dim, fmt::format("value '{}'", value.name)));
    desc.dims.push_back(size);
  }
  return desc;
}

Result<plan::Attrs> describe(const ir::Attrs& attrs, std::string_view op_name) {
  plan::Attrs result;
  for (const auto& [key, attr] : attrs) {
    if (const auto* dims = std::get_if<ir::Dims>(&attr)) {
      std::vector<int64_t> numbers;
      for (const sym::Expr& dim : *dims) {
        LT_ASSIGN(const int64_t size,
                  number(dim, fmt::format("attribute '{}' of op '{}'", key, op_name)));
        numbers.push_back(size);
      }
      result[key] = std::move(numbers);
    } else if (const auto* integer = std::get_if<int64_t>(&attr)) {
      result[key] = *integer;
    } else if (const auto* real = std::get_if<double>(&attr)) {
      result[key] = *real;
    } else {
      result[key] = std::get<std::string>(attr);
    }
  }
  return result;
}

Result<plan::OpDesc> describe(const ir::Graph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  plan::OpDesc desc;
  desc.kind = op.kind;
  LT_ASSIGN(desc.attrs, describe(op.attrs, op.name));
  for (ir::ValueId input : op.inputs) {
    if (!input.valid()) {
      desc.inputs.emplace_back();
      continue;
    }
    LT_ASSIGN(plan::TensorDesc type, describe(graph.value(input)));
    desc.inputs.emplace_back(std::move(type));
  }
  for (ir::ValueId output : op.outputs) {
    LT_ASSIGN(plan::TensorDesc type, describe(graph.value(output)));
    desc.outputs.push_back(std::move(type));
  }
  return desc;
}

}  // namespace lowtide::analysis
