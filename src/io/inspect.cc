#include "io/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "base/file.h"
#include "io/convert.h"
#include "io/graph_file.h"
#include "io/onnx_branches.h"
#include "io/onnx_ops.h"
#include "io/onnx_parameters.h"
#include "io/onnx_peephole.h"
#include "io/onnx_sequences.h"
#include "io/onnx_signatures.h"
#include "io/onnx_wire.h"
#include "io/pt2_reader.h"
#include "ir/bind.h"
#include "ops/op_table.h"
#include "rewrite/types.h"

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

TensorSummary summarize(const ir::Value& value) {
  TensorSummary tensor = {value.name, std::string(name(value.dtype)), {}};
  for (const sym::Expr& dim : value.dims) tensor.dims.push_back(sym::print(dim));
  return tensor;
}

// A value that is there before the step, as an input or a parameter.
void add_given(const ir::Value& value, ModelSummary& summary) {
  if (value.producer.valid()) return;
  if (value.initial.kind == ir::InitialValue::Kind::kFed)
    summary.inputs.push_back(summarize(value));
  if (value.category != Category::kParameter) return;
  ++summary.parameters;
  const int64_t elements = ir::element_count(value).constant().value_or(0);
  summary.parameter_elements += elements;
  summary.trained_elements += elements;
  summary.parameter_bytes += ir::size_bytes(value).constant().value_or(0);
}

// The kind; of an opaque op also what its owner calls it.
std::string type_of(const ir::Op& op) {
  if (!ops::traits(*ops::find(op.kind)).opaque) return op.kind;
  return fmt::format("{} '{}'", op.kind, std::get<std::string>(op.attrs.at("op")));
}

// By falling count; equal ones stay in their order.
void sort_by_count(std::vector<OpCount>& ops) {
  std::stable_sort(ops.begin(), ops.end(),
                   [](const OpCount& a, const OpCount& b) { return a.count > b.count; });
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
  sort_by_count(summary.ops);
  sort_by_count(summary.unsupported);
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

void ask_for_kernels(const ir::Graph& graph, const plan::KernelCatalog& kernels,
                     ModelSummary& summary) {
  // A plan puts casts where no kernel takes the types that are there.
  ir::Graph typed;
  if (auto types = rewrite::choose_types(graph, kernels)) typed = std::move(types->graph);
  const ir::Graph& asked = typed.op_count() > 0 ? typed : graph;
  for (const ir::OpId id : asked.ops()) {
    if (analysis::is_view_op(asked, id)) continue;
    const auto desc = analysis::describe(asked, id);
    const auto bytes = desc ? kernels.workspace_bytes(*desc)
                            : Result<int64_t>(tl::unexpected<Error>(desc.error()));
    if (!bytes)
      summary.no_kernel.push_back(
          fmt::format("op '{}': {}", asked.op(id).name, bytes.error().message));
  }
}

// What became of a conversion with these numbers for symbols.
struct Attempt {
  std::vector<std::string> refused;
  ir::Graph graph;
};

Attempt attempt(OnnxModel model, const sym::Bindings& bindings) {
  Attempt tried;
  const OnnxOptions reading = {.bindings = bindings};
  if (auto status = take_branches(model, reading); !status) {
    tried.refused.push_back(status.error().message);
    return tried;
  }
  replace_sequences(model);
  for (const OnnxNode& node : model.nodes)
    if (auto status = is_taken(node) ? check_signature(node) : Status(); !status)
      tried.refused.push_back(fmt::format("{}: {}", describe(node), status.error().message));
  if (!tried.refused.empty()) return tried;
  constants_to_initializers(model);
  apply_peepholes(model);
  Conversion conversion(model, reading);
  tried.refused = conversion.dry_run();
  tried.graph = conversion.graph();
  return tried;
}

// The conversion as a plan does it. Symbols without numbers get the first of some sizes with which
// it makes a graph, else the one with which it refuses least; then ops are asked for kernels.
void try_conversion(const OnnxModel& model, const InspectOptions& options, ModelSummary& summary) {
  Attempt best = attempt(model, options.bindings);
  const std::vector<std::string> symbols = ir::free_symbols(best.graph);
  const bool wants_sizes = options.kernels != nullptr || !best.refused.empty();
  for (const int64_t size : {64, 256, 16, 4, 1}) {
    if (symbols.empty() || !wants_sizes) break;
    sym::Bindings bindings = options.bindings;
    for (const std::string& symbol : symbols) bindings[symbol] = size;
    Attempt sized = attempt(model, bindings);
    const bool whole = sized.refused.empty() && ir::free_symbols(sized.graph).empty();
    if (!whole && sized.refused.size() >= best.refused.size()) continue;
    summary.size_tried = size;
    best = std::move(sized);
    if (whole) break;
  }
  summary.refused = std::move(best.refused);
  const bool planned = summary.refused.empty() && summary.unsupported.empty();
  if (options.kernels != nullptr && planned && ir::free_symbols(best.graph).empty())
    ask_for_kernels(best.graph, *options.kernels, summary);
}

// What is the same of all models of nodes: parameters, what the conversion refuses, dims.
void summarize(OnnxModel model, const InspectOptions& options, ModelSummary& summary) {
  constants_to_initializers(model);
  count_parameters(model, summary);
  try_conversion(model, options, summary);
  std::set<std::string> initializers, symbols;
  for (const OnnxTensor& tensor : model.initializers) initializers.insert(tensor.name);
  for (const OnnxValueInfo& input : model.inputs)
    if (!initializers.contains(input.name)) summary.inputs.push_back(summarize(input, symbols));
  for (const OnnxValueInfo& output : model.outputs)
    summary.outputs.push_back(summarize(output, symbols));
  summary.symbols.assign(symbols.begin(), symbols.end());
}

OpCount count_of(const std::string& target, const std::vector<std::string>& nodes) {
  OpCount count = {.op_type = target, .count = static_cast<int64_t>(nodes.size()), .nodes = nodes};
  count.nodes.resize(std::min(count.nodes.size(), kNamesShown));
  return count;
}

std::string print_symbols(const ModelSummary& summary) {
  std::string text;
  for (const std::string& symbol : summary.symbols) {
    text += (text.empty() ? "" : ", ") + symbol;
    if (const auto range = summary.ranges.find(symbol); range != summary.ranges.end())
      text += fmt::format(" ({})", range->second);
  }
  return text.empty() ? "none" : text;
}

std::string print_ops(const std::vector<OpCount>& ops, bool refused) {
  std::string text;
  for (const OpCount& op : ops) {
    text += text.empty() ? "" : ", ";
    text += refused ? print_refused(op.op_type, op.count, op.nodes, op.why)
                    : fmt::format("{} {}", op.op_type, op.count);
  }
  return text;
}

std::string print_refusals(const std::vector<std::string>& refusals, std::string_view when = "") {
  std::string text;
  for (size_t i = 0; i < std::min(refusals.size(), kRefusalsShown); ++i)
    text += fmt::format("unsupported {}{}\n", when, refusals[i]);
  if (refusals.size() > kRefusalsShown)
    text += fmt::format("unsupported {} more\n", refusals.size() - kRefusalsShown);
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
                                        const std::string& origin, const InspectOptions& options) {
  LT_ASSIGN(OnnxModel model, decode_onnx_model(bytes, origin, folder));
  ModelSummary summary;
  summary.functions = static_cast<int64_t>(model.functions.size());
  LT_RETURN_IF_ERROR(take_branches(model, {.bindings = options.bindings}));
  replace_sequences(model);
  summary.name = model.name;
  summary.producer = model.producer;
  summary.ir_version = model.ir_version;
  summary.opset = model.opset;
  summary.nodes = static_cast<int64_t>(model.nodes.size());
  count_ops(model, summary);
  summarize(std::move(model), options, summary);
  return summary;
}

Result<ModelSummary> inspect_pt2_bytes(std::string_view bytes, const std::string& folder,
                                       const std::string& file, const std::string& origin,
                                       const InspectOptions& options) {
  LT_ASSIGN(Lowered lowered,
            lower_pt2(bytes, origin, folder, file, {.bindings = options.bindings}));
  ModelSummary summary;
  summary.producer = lowered.model.producer;
  summary.form = "an exported program";
  for (const auto& [target, nodes] : lowered.ops) {
    summary.nodes += static_cast<int64_t>(nodes.size());
    summary.ops.push_back(count_of(target, nodes));
  }
  for (const NotTaken& each : lowered.not_taken) {
    summary.unsupported.push_back(count_of(each.target, each.nodes));
    summary.unsupported.back().why = each.why.empty() ? "opaque: no row takes it" : each.why;
  }
  sort_by_count(summary.ops);
  sort_by_count(summary.unsupported);
  summarize(std::move(lowered.model), options, summary);
  for (const auto& [symbol, range] : lowered.ranges)
    if (std::find(summary.symbols.begin(), summary.symbols.end(), symbol) != summary.symbols.end())
      summary.ranges[symbol] = range;
  return summary;
}

Result<ModelSummary> inspect_pt2(const std::string& path, const InspectOptions& options) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::filesystem::path where(path);
  const std::string folder = where.parent_path().string();
  return inspect_pt2_bytes(file.bytes(), folder.empty() ? "." : folder, where.filename().string(),
                           path, options);
}

Result<ModelSummary> inspect_onnx(const std::string& path, const InspectOptions& options) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return inspect_onnx_bytes(file.bytes(), folder.empty() ? "." : folder, path, options);
}

Result<ModelSummary> inspect_graph(const std::string& path, const InspectOptions& options) {
  LT_ASSIGN(const ir::Graph graph, read_graph_file(path, options.bindings));
  ModelSummary summary;
  summary.name = graph.name;
  summary.producer = graph.producer;
  summary.nodes = static_cast<int64_t>(graph.op_count());
  summary.form = "a graph as text";
  std::map<std::string, OpCount> counts;
  for (const ir::OpId id : graph.ops()) {
    OpCount& count = counts[type_of(graph.op(id))];
    count.op_type = type_of(graph.op(id));
    ++count.count;
    if (count.nodes.size() < kNamesShown) count.nodes.push_back(graph.op(id).name);
  }
  for (const auto& [type, count] : counts) summary.ops.push_back(count);
  sort_by_count(summary.ops);
  for (const ir::ValueId id : graph.values()) add_given(graph.value(id), summary);
  for (const ir::ValueId id : graph.outputs())
    summary.outputs.push_back(summarize(graph.value(id)));
  summary.symbols = ir::free_symbols(graph);
  if (options.kernels != nullptr && summary.symbols.empty())
    ask_for_kernels(graph, *options.kernels, summary);
  return summary;
}

std::string print(const ModelSummary& summary) {
  std::string text = fmt::format(
      "model {}{}{}, {}\n", summary.name.empty() ? "unnamed" : summary.name,
      summary.producer.empty() ? "" : " by ", summary.producer,
      summary.ir_version == 0 ? summary.form
                              : fmt::format("IR {}, opset {}", summary.ir_version, summary.opset));
  text += print_tensors("input", summary.inputs) + print_tensors("output", summary.outputs);
  text += fmt::format("symbols {}\n", print_symbols(summary));
  text += fmt::format(
      "parameters {} tensors, {} elements ({} trained), {} bytes{}\n", summary.parameters,
      summary.parameter_elements, summary.trained_elements, summary.parameter_bytes,
      summary.external_missing ? ", values not in the file: drawn from the seed" : "");
  text += fmt::format("nodes {}{}{}\n", summary.nodes, summary.ops.empty() ? "" : ": ",
                      print_ops(summary.ops, false));
  if (!summary.unsupported.empty())
    text += fmt::format("unsupported {}\n", print_ops(summary.unsupported, true));
  const std::string tried =
      summary.size_tried ? fmt::format("with size {} for each symbol: ", *summary.size_tried) : "";
  text += print_refusals(summary.refused, tried) + print_refusals(summary.no_kernel, tried);
  if (summary.unsupported.empty() && summary.refused.empty() && summary.no_kernel.empty())
    text += "unsupported none\n";
  return text;
}

}  // namespace lowtide::io
