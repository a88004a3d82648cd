#include "cost/work.h"

#include <fmt/core.h>

#include <algorithm>

namespace lowtide::cost {
namespace {

ir::Dims expressions(const std::vector<int64_t>& sizes) {
  return {sizes.begin(), sizes.end()};
}

ir::Attrs expressions(const plan::Attrs& attrs) {
  ir::Attrs result;
  for (const auto& [name, value] : attrs)
    result[name] = std::visit(
        [](const auto& plain) -> ir::AttrValue {
          if constexpr (std::is_same_v<std::decay_t<decltype(plain)>, std::vector<int64_t>>)
            return expressions(plain);
          else
            return plain;
        },
        value);
  return result;
}

}  // namespace

TableInstance::TableInstance(const plan::OpDesc& op) : attrs_(expressions(op.attrs)) {
  instance_.kind = op.kind;
  instance_.attrs = &attrs_;
  for (const auto& input : op.inputs) {
    instance_.inputs.emplace_back();
    if (input)
      instance_.inputs.back() = ops::Type{
          .dtype = input->dtype, .dims = expressions(input->dims), .layout = input->layout};
  }
}

Result<OpWork> op_work(const plan::OpDesc& op) {
  const TableInstance table(op);
  const ops::Instance& instance = table.instance();
  LT_ASSIGN(const ops::Work work, ops::work(instance));
  LT_ASSIGN(const std::vector<ops::OutputType> outputs, ops::infer(instance));
  const auto flops = work.flops.constant();
  const auto bytes = (work.bytes_read + work.bytes_written).constant();
  if (!flops || !bytes)
    return error(ErrorCode::kInput,
                 fmt::format("{}: its FLOPs or bytes do not fit into 64 bits", op.kind));
  OpWork result{.flops = static_cast<double>(*flops), .bytes = static_cast<double>(*bytes)};
  result.only_views = !outputs.empty() && std::all_of(outputs.begin(), outputs.end(),
                                                      [](const ops::OutputType& output) {
                                                        return ir::is_view(output.alias);
                                                      });
  return result;
}

}  // namespace lowtide::cost
