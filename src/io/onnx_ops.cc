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

struct Reason {
  std::string_view why;
  std::string_view ops;  // between blanks
};
constexpr Reason kReasons[] = {
    {"its body runs many times", " Loop Scan "},
    {"the size of its result is data", " Unique NonMaxSuppression StringSplit "},
    {"a sequence whose parts are not known",
     " SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
     "SequenceMap SplitToSequence ConcatFromSequence "},
    {"no tensor", " Optional OptionalGetElement OptionalHasElement "},
    {"text", " StringConcat StringNormalizer RegexFullMatch TfIdfVectorizer "},
    {"a file's contents", " ImageDecoder "},
    {"complex numbers", " DFT STFT "},
    {"drawn numbers of a kind that no kernel makes",
     " RandomNormal RandomNormalLike RandomUniform Multinomial Bernoulli "},
    {"a step of training: `--train` makes its own", " Gradient Adam Adagrad Momentum "},
};

// What stands in the way of an op that is not taken, as "Loop" or "domain.Op"; empty where nothing
// does but that nobody wrote it.
std::string_view why_refused(std::string_view op_type) {
  if (op_type.find('.') != std::string_view::npos) return "not of ONNX's own domain";
  for (const Reason& reason : kReasons)
    if (reason.ops.find(fmt::format(" {} ", op_type)) != std::string_view::npos) return reason.why;
  return {};
}

}  // namespace

std::vector<std::span<const ConvertRow>> conversion_families() {
  return {elementwise_conversions(), activation_conversions(), product_conversions(),
          window_conversions(),      network_conversions(),    reduction_conversions(),
          movement_conversions(),    resampling_conversions(), indexing_conversions(),
          einsum_conversions(),      attention_conversions(),  loss_conversions(),
          quantized_conversions(),   recurrent_conversions(),  state_conversions(),
          deformable_conversions(),  exported_conversions()};
}

const ConvertRow* find_conversion(std::string_view op_type) {
  for (const std::span<const ConvertRow> family : conversion_families())
    for (const ConvertRow& row : family)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

bool is_taken(const OnnxNode& node) {
  if (!node.domain.empty() && node.domain != kPeepholeDomain) return false;
  if (node.domain.empty() && std::ranges::find(kPeepholeOps, node.op_type) != kPeepholeOps.end())
    return false;
  const bool read_by_the_door = node.op_type == "Constant" || node.op_type == "Shape" ||
                                node.op_type == "Size" || node.op_type == "If";
  return read_by_the_door || find_conversion(node.op_type) != nullptr || is_folded(node.op_type);
}

std::string print_refused(std::string_view op_type, int64_t count,
                          std::span<const std::string> nodes, std::string_view reason) {
  const std::string_view why = reason.empty() ? why_refused(op_type) : reason;
  const auto shown = nodes.first(std::min(nodes.size(), kNodesShown));
  return fmt::format("{} {} ({}{}{}{})", op_type, count, fmt::join(shown, " "),
                     static_cast<size_t>(count) > shown.size() ? " ..." : "",
                     why.empty() ? "" : ": ", why);
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
  for (const auto& [type, nodes] : refused)
    text +=
        (text.empty() ? "" : ", ") + print_refused(type, static_cast<int64_t>(nodes.size()), nodes);
  return error(ErrorCode::kInput, fmt::format("{}: unsupported ops: {}", model.origin, text));
}

}  // namespace lowtide::io
