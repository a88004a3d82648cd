// The letters of attribute types: f one float, i one integer, s one string, t a tensor, F I S lists
// of them, p a sparse tensor. An integer stands for a float of the same number, as some exporters
// write it; nothing else is converted. A type that the file does not tell (before IR 4) is that of
// the field it filled; an empty list fills none and fits everywhere.
#include "io/onnx_signatures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

namespace lowtide::io {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

// Sorted by name, for binary search.
constexpr OpSignature kSignatures[] = {
    {"Abs", 1, 1, ""},
    {"Add", 2, 1, ""},
    {"And", 2, 1, ""},
    {"Attention", 7, 4,
     "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f "
     "softmax_precision:i"},
    {"AveragePool", 1, 1,
     "auto_pad:s ceil_mode:i count_include_pad:i dilations:I kernel_shape:I pads:I strides:I"},
    {"BatchNormalization", 5, 5, "epsilon:f momentum:f spatial:i training_mode:i"},
    {"Cast", 1, 1, "round_mode:s saturate:i to:i"},
    {"CastLike", 2, 1, "round_mode:s saturate:i"},
    {"Ceil", 1, 1, ""},
    {"Clip", 3, 1, "max:f min:f"},
    {"Concat", kMany, 1, "axis:i"},
    {"Constant", 0, 1,
     "sparse_value:p value:t value_float:f value_floats:F value_int:i value_ints:I value_string:s "
     "value_strings:S"},
    {"ConstantOfShape", 1, 1, "value:t"},
    {"Conv", 3, 1, "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"},
    {"ConvTranspose", 3, 1,
     "auto_pad:s dilations:I group:i kernel_shape:I output_padding:I output_shape:I pads:I "
     "strides:I"},
    {"Cos", 1, 1, ""},
    {"CumSum", 2, 1, "exclusive:i reverse:i"},
    {"DepthToSpace", 1, 1, "blocksize:i mode:s"},
    {"Div", 2, 1, ""},
    {"Dropout", 3, 2, "ratio:f seed:i"},
    {"Elu", 1, 1, "alpha:f"},
    {"Equal", 2, 1, ""},
    {"Erf", 1, 1, ""},
    {"Exp", 1, 1, ""},
    {"Expand", 2, 1, ""},
    {"Flatten", 1, 1, "axis:i"},
    {"Floor", 1, 1, ""},
    {"Gather", 2, 1, "axis:i"},
    {"GatherElements", 2, 1, "axis:i"},
    {"GatherND", 2, 1, "batch_dims:i"},
    {"Gelu", 1, 1, "approximate:s"},
    {"Gemm", 3, 1, "alpha:f beta:f transA:i transB:i"},
    {"GlobalAveragePool", 1, 1, ""},
    {"GlobalMaxPool", 1, 1, ""},
    {"Greater", 2, 1, ""},
    {"GreaterOrEqual", 2, 1, ""},
    {"GroupNormalization", 3, 1, "epsilon:f num_groups:i stash_type:i"},
    {"HardSigmoid", 1, 1, "alpha:f beta:f"},
    {"HardSwish", 1, 1, ""},
    {"Identity", 1, 1, ""},
    {"InstanceNormalization", 3, 1, "epsilon:f"},
    {"IsNaN", 1, 1, ""},
    {"LayerNormalization", 3, 3, "axis:i epsilon:f stash_type:i"},
    {"LeakyRelu", 1, 1, "alpha:f"},
    {"Less", 2, 1, ""},
    {"LessOrEqual", 2, 1, ""},
    {"Log", 1, 1, ""},
    {"LogSoftmax", 1, 1, "axis:i"},
    {"MatMul", 2, 1, ""},
    {"Max", kMany, 1, ""},
    {"MaxPool", 1, 2,
     "auto_pad:s ceil_mode:i dilations:I kernel_shape:I pads:I storage_order:i strides:I"},
    {"Mean", kMany, 1, ""},
    {"Min", kMany, 1, ""},
    {"Mish", 1, 1, ""},
    {"Mod", 2, 1, "fmod:i"},
    {"Mul", 2, 1, ""},
    {"Neg", 1, 1, ""},
    {"Not", 1, 1, ""},
    {"Or", 2, 1, ""},
    {"Pad", 4, 1, "mode:s pads:I value:f"},
    {"Pow", 2, 1, ""},
    {"RMSNormalization", 2, 1, "axis:i epsilon:f stash_type:i"},
    {"RandomUniformLike", 1, 1, "dtype:i high:f low:f seed:f"},
    {"Range", 3, 1, "stash_type:i"},
    {"Reciprocal", 1, 1, ""},
    {"ReduceL1", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceL2", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceLogSum", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceLogSumExp", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceMax", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceMean", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceMin", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceProd", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceSum", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"ReduceSumSquare", 2, 1, "axes:I keepdims:i noop_with_empty_axes:i"},
    {"Relu", 1, 1, ""},
    {"Reshape", 2, 1, "allowzero:i"},
    {"Round", 1, 1, ""},
    {"ScatterND", 3, 1, "reduction:s"},
    {"Shape", 1, 1, "end:i start:i"},
    {"Sigmoid", 1, 1, ""},
    {"Sign", 1, 1, ""},
    {"Sin", 1, 1, ""},
    {"Size", 1, 1, ""},
    {"Slice", 5, 1, "axes:I ends:I starts:I"},
    {"Softmax", 1, 1, "axis:i"},
    {"SoftmaxCrossEntropyLoss", 3, 2, "ignore_index:i reduction:s"},
    {"Softplus", 1, 1, ""},
    {"Softsign", 1, 1, ""},
    {"SpaceToDepth", 1, 1, "blocksize:i"},
    {"Split", 2, kMany, "axis:i num_outputs:i split:I"},
    {"Sqrt", 1, 1, ""},
    {"Squeeze", 2, 1, "axes:I"},
    {"Sub", 2, 1, ""},
    {"Sum", kMany, 1, ""},
    {"Swish", 1, 1, "alpha:f"},
    {"Tanh", 1, 1, ""},
    {"ThresholdedRelu", 1, 1, "alpha:f"},
    {"Tile", 2, 1, ""},
    {"Transpose", 1, 1, "perm:I"},
    {"Trilu", 2, 1, "upper:i"},
    {"Unsqueeze", 2, 1, "axes:I"},
    {"Where", 3, 1, ""},
    {"Xor", 2, 1, ""},
};

struct TypeName {
  int32_t code;  // AttributeProto.AttributeType
  char letter;
  std::string_view name;
};
constexpr std::array<TypeName, 14> kTypeNames = {{{0, ' ', "empty"},
                                                  {1, 'f', "FLOAT"},
                                                  {2, 'i', "INT"},
                                                  {3, 's', "STRING"},
                                                  {4, 't', "TENSOR"},
                                                  {5, 'g', "GRAPH"},
                                                  {6, 'F', "FLOATS"},
                                                  {7, 'I', "INTS"},
                                                  {8, 'S', "STRINGS"},
                                                  {9, 'T', "TENSORS"},
                                                  {10, 'G', "GRAPHS"},
                                                  {11, 'p', "SPARSE_TENSOR"},
                                                  {12, 'P', "SPARSE_TENSORS"},
                                                  {13, 'y', "TYPE_PROTO"}}};

std::string type_text(int32_t code) {
  for (const TypeName& row : kTypeNames)
    if (row.code == code) return std::string(row.name);
  return fmt::format("of type {}", code);
}

// The value of a single number or word, after a blank, to find it by; a long word is cut.
std::string value_text(const OnnxAttr& attr) {
  if (attr.integer) return fmt::format(" {}", *attr.integer);
  if (attr.real) return fmt::format(" {}", *attr.real);
  return attr.word ? fmt::format(" '{}'", attr.word->substr(0, 32)) : std::string();
}

// The letter behind `name:` in a signature's list, and all names; ' ' when it is not there.
struct Wanted {
  char letter = ' ';
  std::vector<std::string_view> names;
};

Wanted find_attribute(std::string_view list, std::string_view name) {
  Wanted wanted;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    const std::string_view entry = list.substr(0, end);
    const std::string_view key = entry.substr(0, entry.size() - 2);
    if (key == name) wanted.letter = entry.back();
    wanted.names.push_back(key);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return wanted;
}

Status check_count(std::string_view what, size_t count, size_t most) {
  if (count <= most) return {};
  return error(ErrorCode::kInput,
               fmt::format("has {} {}s; the op has at most {}", count, what, most));
}

Status check_attribute(const OpSignature& signature, std::string_view name, const OnnxAttr& attr) {
  const Wanted wanted = find_attribute(signature.attributes, name);
  if (wanted.letter == ' ' && wanted.names.empty())
    return error(ErrorCode::kInput, fmt::format("has the attribute '{}'; the op has none", name));
  if (wanted.letter == ' ')
    return error(ErrorCode::kInput, fmt::format("has the attribute '{}'; the op knows only {}",
                                                name, fmt::join(wanted.names, ", ")));
  for (const TypeName& row : kTypeNames) {
    const bool fits =
        row.letter == wanted.letter || (row.letter == 'i' && wanted.letter == 'f') || row.code == 0;
    if (fits && row.code == attr.type) return {};
  }
  const auto right = std::find_if(kTypeNames.begin(), kTypeNames.end(),
                                  [&](const TypeName& row) { return row.letter == wanted.letter; });
  return error(ErrorCode::kInput, fmt::format("attribute '{}' is {}{}; it must be {}", name,
                                              type_text(attr.type), value_text(attr), right->name));
}

}  // namespace

const OpSignature* find_signature(std::string_view op_type) {
  const auto* found = std::lower_bound(
      std::begin(kSignatures), std::end(kSignatures), op_type,
      [](const OpSignature& row, std::string_view name) { return row.op_type < name; });
  return found != std::end(kSignatures) && found->op_type == op_type ? found : nullptr;
}

Status check_signature(const OnnxNode& node) {
  const OpSignature* signature = node.domain.empty() ? find_signature(node.op_type) : nullptr;
  if (signature == nullptr) return {};
  LT_RETURN_IF_ERROR(check_count("input", node.inputs.size(), signature->max_inputs));
  LT_RETURN_IF_ERROR(check_count("output", node.outputs.size(), signature->max_outputs));
  if (node.outputs.empty()) return error(ErrorCode::kInput, "has no output");
  for (const auto& [name, attr] : node.attrs)
    LT_RETURN_IF_ERROR(check_attribute(*signature, name, attr));
  return {};
}

}  // namespace lowtide::io
