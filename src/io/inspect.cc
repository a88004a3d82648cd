#include "io/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "io/convert.h"
#include "io/onnx_functions.h"
#include "io/onnx_ops.h"
#include "io/onnx_order.h"
#include "io/onnx_parameters.h"
#include "io/onnx_peephole.h"
#include "io/onnx_signatures.h"
#include "io/onnx_wire.h"

namespace lowtide::io {
namespace {

constexpr size_t kNamesShown = 8;
constexpr size_t kRefusalsShown = 32;

TensorSummary summarize(const OnnxValueInfo& info, std::set<std::string>& symbols) {
  TensorSummary tensor;
  tensor.name = info.name;
  tensor.dtype = info.is_tensor ? onnx_type_name(info.type_code) : "not a tensor";
  if (info.is_tensor && !info.has_shape) tensor.dims = {"..."};
  for (size_t d = 0; d < info.dims.size(); ++d) {
    tensor.dims.push_back(info.dim_text[d].empty() ? "?" : info.dim_text[d]);
    if (!info.dims[d]) continue;
    for (const std::string& symbol : info.dims[d]->symbols()) symbols.insert(symbol);
  }
  return tensor;
}

void count_ops(const OnnxModel& model, ModelSummary& summary) {
  std::map<std::string, OpCount> counts;
  std::set<std::string> refused;
  for (const OnnxNode& node : model.nodes) {
    const std::string type = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    OpCount& count = counts[type];
    count.op_type = type;
    ++count.count;
    if (count.nodes.size() < kNamesShown)
      count.nodes.push_back(!node.name.empty() || node.outputs.empty() ? node.name
                                                                       : node.outputs[0]);
    if (!is_taken(node)) refused.insert(type);
  }
  for (const auto& [type, count] : counts) {
    summary.ops.push_back(count);
    if (refused.contains(type)) summary.unsupported.push_back(count);
  }
  const auto by_count = [](const OpCount& a, const OpCount& b) { return a.count > b.count; };
  std::stable_sort(summary.ops.begin(), summary.ops.end(), by_count);
  std::stable_sort(summary.unsupported.begin(), summary.unsupported.end(), by_count);
}

void count_parameters(const OnnxModel& model, ModelSummary& summary) {
  const TensorRoles roles = tensor_roles(model);
  for (const OnnxTensor& tensor : model.initializers) {
    const TensorRole role = roles.find(tensor.name)->second;
    if (tensor.external) {
      summary.external_bytes += tensor.length;
      std::error_code code;
      const auto path = std::filesystem::path(model.folder) / tensor.file;
      summary.external_missing |= model.folder.empty() || !std::filesystem::exists(path, code);
    }
    if (role == TensorRole::kConstant) continue;
    ++summary.parameters;
    summary.parameter_elements += tensor.element_count();
    if (role == TensorRole::kTrained) summary.trained_elements += tensor.element_count();
    if (tensor.dtype) summary.parameter_bytes += tensor.element_count() * size_bytes(*tensor.dtype);
  }
}

// The conversion tried on a copy: refusals, and ops on floats that are not f32.
void try_conversion(OnnxModel model, ModelSummary& summary) {
  for (const OnnxNode& node : model.nodes)
    if (auto status = is_taken(node) ? check_signature(node) : Status(); !status)
      summary.refused.push_back(fmt::format("{}: {}", describe(node), status.error().message));
  if (!summary.refused.empty()) return;
  apply_peepholes(model);
  const OnnxOptions options;
  Conversion conversion(model, options);
  summary.refused = conversion.dry_run();
  const ir::Graph& graph = conversion.graph();
  std::map<std::string, OpCount> counts;
  for (const ir::OpId id : graph.ops()) {
    const ir::Op& op = graph.op(id);
    std::optional<DType> other;
    for (const auto& values : {op.inputs, op.outputs})
      for (const ir::ValueId value : values) {
        if (!value.valid()) continue;
        const DType dtype = graph.value(value).dtype;
        if (is_float(dtype) && dtype != DType::kF32) other = dtype;
      }
    if (!other) continue;
    const std::string type = fmt::format("{} {}", name(*other), op.kind);
    OpCount& count = counts[type];
    count.op_type = type;
    if (++count.count <= static_cast<int64_t>(kNamesShown)) count.nodes.push_back(op.name);
  }
  for (const auto& [type, count] : counts) summary.not_f32.push_back(count);
}

std::string print_ops(const std::vector<OpCount>& ops, bool with_nodes) {
  std::string text;
  for (const OpCount& op : ops) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", op.op_type, op.count);
    if (with_nodes)
      text += fmt::format(" ({}{})", fmt::join(op.nodes, " "), op.count > 8 ? " ..." : "");
  }
  return text;
}

std::string print_tensors(std::string_view role, const std::vector<TensorSummary>& tensors) {
  std::string text;
  for (const TensorSummary& tensor : tensors)
    text += fmt::format("{} {} {} ({})\n", role, tensor.name, tensor.dtype,
                        fmt::join(tensor.dims, ", "));
  return text;
}

}  // namespace

Result<ModelSummary> inspect_onnx_bytes(std::string_view bytes, const std::string& folder,
                                        const std::string& origin) {
  LT_ASSIGN(OnnxModel model, decode_onnx_model(bytes, origin, folder));
  ModelSummary summary;
  summary.functions = static_cast<int64_t>(model.functions.size());
  LT_RETURN_IF_ERROR(expand_functions(model));
  LT_RETURN_IF_ERROR(order_nodes(model));
  summary.name = model.name;
  summary.producer = model.producer;
  summary.ir_version = model.ir_version;
  summary.opset = model.opset;
  summary.nodes = static_cast<int64_t>(model.nodes.size());
  count_ops(model, summary);
  count_parameters(model, summary);
  try_conversion(model, summary);
  std::set<std::string> initializers, symbols;
  for (const OnnxTensor& tensor : model.initializers) initializers.insert(tensor.name);
  for (const OnnxValueInfo& input : model.inputs)
    if (!initializers.contains(input.name)) summary.inputs.push_back(summarize(input, symbols));
  for (const OnnxValueInfo& output : model.outputs)
    summary.outputs.push_back(summarize(output, symbols));
  summary.symbols.assign(symbols.begin(), symbols.end());
  return summary;
}

Result<ModelSummary> inspect_onnx(const std::string& path) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return inspect_onnx_bytes(file.bytes(), folder.empty() ? "." : folder, path);
}

std::string print(const ModelSummary& summary) {
  std::string text = fmt::format(
      "model {}{}{}, IR {}, opset {}\n", summary.name.empty() ? "unnamed" : summary.name,
      summary.producer.empty() ? "" : " by ", summary.producer, summary.ir_version, summary.opset);
  text += print_tensors("input", summary.inputs) + print_tensors("output", summary.outputs);
  text += fmt::format("symbols {}\n", summary.symbols.empty()
                                          ? "none"
                                          : fmt::format("{}", fmt::join(summary.symbols, ", ")));
  text += fmt::format(
      "parameters {} tensors, {} elements ({} trained), {} bytes{}\n", summary.parameters,
      summary.parameter_elements, summary.trained_elements, summary.parameter_bytes,
      summary.external_missing ? ", values not in the file: drawn from the seed" : "");
  text += fmt::format("nodes {}{}{}\n", summary.nodes, summary.ops.empty() ? "" : ": ",
                      print_ops(summary.ops, false));
  if (!summary.unsupported.empty())
    text += fmt::format("unsupported {}\n", print_ops(summary.unsupported, true));
  for (size_t i = 0; i < std::min(summary.refused.size(), kRefusalsShown); ++i)
    text += fmt::format("unsupported {}\n", summary.refused[i]);
  if (summary.refused.size() > kRefusalsShown)
    text += fmt::format("unsupported {} more\n", summary.refused.size() - kRefusalsShown);
  if (!summary.not_f32.empty())
    text += fmt::format("unsupported by most CPU kernels, which take only f32: {}\n",
                        print_ops(summary.not_f32, true));
  if (summary.unsupported.empty() && summary.refused.empty() && summary.not_f32.empty())
    text += "unsupported none\n";
  return text;
}

}  // namespace lowtide::io
