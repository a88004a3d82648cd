// The letters of attribute types:
//
//   f i s    one float, one integer, one string
//   F I S    lists of them
//   t g p    a tensor, a graph, a sparse tensor
//
// An integer stands for a float of the same number, as some exporters write it; nothing else is
// converted. A type that the file does not tell (before IR 4) is that of the field it filled; an
// empty list fills none and fits everywhere.
#include "io/onnx_signatures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace lowtide::io {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

// Sorted by name, for binary search.
constexpr OpSignature kSignatures[] = {
    {"Abs", 1, 1, ""},
    {"Acos", 1, 1, ""},
    {"Acosh", 1, 1, ""},
    {"Add", 2, 1, ""},
    {"AffineGrid", 2, 1, "align_corners:i"},
    {"And", 2, 1, ""},
    {"ArgMax", 1, 1, "axis:i keepdims:i select_last_index:i"},
    {"ArgMin", 1, 1, "axis:i keepdims:i select_last_index:i"},
    {"Asin", 1, 1, ""},
    {"Asinh", 1, 1, ""},
    {"Atan", 1, 1, ""},
    {"Atanh", 1, 1, ""},
    {"Attention", 7, 4,
     "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f "
     "softmax_precision:i"},
    {"AveragePool", 1, 1,
     "auto_pad:s ceil_mode:i count_include_pad:i dilations:I kernel_shape:I pads:I strides:I"},
    {"BatchNormalization", 5, 5, "epsilon:f momentum:f spatial:i training_mode:i"},
    {"BitCast", 1, 1, "to:i"},
    {"BitShift", 2, 1, "direction:s"},
    {"BitwiseAnd", 2, 1, ""},
    {"BitwiseNot", 1, 1, ""},
    {"BitwiseOr", 2, 1, ""},
    {"BitwiseXor", 2, 1, ""},
    {"BlackmanWindow", 1, 1, "output_datatype:i periodic:i"},
    {"Cast", 1, 1, "round_mode:s saturate:i to:i"},
    {"CastLike", 2, 1, "round_mode:s saturate:i"},
    {"CausalConvWithState", 4, 2, "activation:s"},
    {"Ceil", 1, 1, ""},
    {"Celu", 1, 1, "alpha:f"},
    {"CenterCropPad", 2, 1, "axes:I"},
    {"Clip", 3, 1, "max:f min:f"},
    {"Col2Im", 3, 1, "dilations:I pads:I strides:I"},
    {"Compress", 2, 1, "axis:i"},
    {"Concat", kMany, 1, "axis:i"},
    {"Constant", 0, 1,
     "sparse_value:p value:t value_float:f value_floats:F value_int:i value_ints:I value_string:s "
     "value_strings:S"},
    {"ConstantOfShape", 1, 1, "value:t"},
    {"Conv", 3, 1, "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"},
    {"ConvInteger", 4, 1, "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"},
    {"ConvTranspose", 3, 1,
     "auto_pad:s dilations:I group:i kernel_shape:I output_padding:I output_shape:I pads:I "
     "strides:I"},
    {"Cos", 1, 1, ""},
    {"Cosh", 1, 1, ""},
    {"CumProd", 2, 1, "exclusive:i reverse:i"},
    {"CumSum", 2, 1, "exclusive:i reverse:i"},
    {"DeformConv", 5, 1, "dilations:I group:i kernel_shape:I offset_group:i pads:I strides:I"},
    {"DepthToSpace", 1, 1, "blocksize:i mode:s"},
    {"DequantizeLinear", 3, 1, "axis:i block_size:i output_dtype:i"},
    {"Div", 2, 1, ""},
    {"Dropout", 3, 2, "ratio:f seed:i"},
    {"DynamicQuantizeLinear", 1, 3, ""},
    {"Einsum", kMany, 1, "equation:s"},
    {"Elu", 1, 1, "alpha:f"},
    {"Equal", 2, 1, ""},
    {"Erf", 1, 1, ""},
    {"Exp", 1, 1, ""},
    {"Expand", 2, 1, ""},
    {"EyeLike", 1, 1, "dtype:i k:i"},
    {"Flatten", 1, 1, "axis:i"},
    {"Floor", 1, 1, ""},
    {"GRU", 6, 2,
     "activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i layout:i "
     "linear_before_reset:i"},
    {"Gather", 2, 1, "axis:i"},
    {"GatherElements", 2, 1, "axis:i"},
    {"GatherND", 2, 1, "batch_dims:i"},
    {"Gelu", 1, 1, "approximate:s"},
    {"Gemm", 3, 1, "alpha:f beta:f transA:i transB:i"},
    {"GlobalAveragePool", 1, 1, ""},
    {"GlobalLpPool", 1, 1, "p:i"},
    {"GlobalMaxPool", 1, 1, ""},
    {"Greater", 2, 1, ""},
    {"GreaterOrEqual", 2, 1, ""},
    {"GridSample", 2, 1, "align_corners:i mode:s padding_mode:s"},
    {"GroupNormalization", 3, 1, "epsilon:f num_groups:i stash_type:i"},
    {"HammingWindow", 1, 1, "output_datatype:i periodic:i"},
    {"HannWindow", 1, 1, "output_datatype:i periodic:i"},
    {"HardSigmoid", 1, 1, "alpha:f beta:f"},
    {"HardSwish", 1, 1, ""},
    {"Hardmax", 1, 1, "axis:i"},
    {"Identity", 1, 1, ""},
    {"If", 1, kMany, "else_branch:g then_branch:g"},
    {"InstanceNormalization", 3, 1, "epsilon:f"},
    {"IsInf", 1, 1, "detect_negative:i detect_positive:i"},
    {"IsNaN", 1, 1, ""},
    {"LRN", 1, 1, "alpha:f beta:f bias:f size:i"},
    {"LSTM", 8, 3,
     "activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i "
     "input_forget:i layout:i"},
    {"LayerNormalization", 3, 3, "axis:i epsilon:f stash_type:i"},
    {"LeakyRelu", 1, 1, "alpha:f"},
    {"Less", 2, 1, ""},
    {"LessOrEqual", 2, 1, ""},
    {"Log", 1, 1, ""},
    {"LogSoftmax", 1, 1, "axis:i"},
    {"LpNormalization", 1, 1, "axis:i p:i"},
    {"LpPool", 1, 1, "auto_pad:s ceil_mode:i dilations:I kernel_shape:I p:i pads:I strides:I"},
    {"MatMul", 2, 1, ""},
    {"MatMulInteger", 4, 1, ""},
    {"Max", kMany, 1, ""},
    {"MaxPool", 1, 2,
     "auto_pad:s ceil_mode:i dilations:I kernel_shape:I pads:I storage_order:i strides:I"},
    {"MaxUnpool", 3, 1, "kernel_shape:I pads:I strides:I"},
    {"Mean", kMany, 1, ""},
    {"MeanVarianceNormalization", 1, 1, "axes:I"},
    {"Min", kMany, 1, ""},
    {"Mish", 1, 1, ""},
    {"Mod", 2, 1, "fmod:i"},
    {"Mul", 2, 1, ""},
    {"Neg", 1, 1, ""},
    {"NegativeLogLikelihoodLoss", 3, 1, "ignore_index:i reduction:s"},
    {"NonZero", 1, 1, ""},
    {"Not", 1, 1, ""},
    {"OneHot", 3, 1, "axis:i"},
    {"Or", 2, 1, ""},
    {"PRelu", 2, 1, ""},
    {"Pad", 4, 1, "mode:s pads:I value:f"},
    {"Pow", 2, 1, ""},
    {"QLinearConv", 9, 1, "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"},
    {"QLinearMatMul", 8, 1, ""},
    {"QuantizeLinear", 3, 1, "axis:i block_size:i output_dtype:i precision:i saturate:i"},
    {"RMSNormalization", 2, 1, "axis:i epsilon:f stash_type:i"},
    {"RNN", 6, 2,
     "activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i "
     "layout:i"},
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
    {"Resize", 4, 1,
     "antialias:i axes:I coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i "
     "extrapolation_value:f keep_aspect_ratio_policy:s mode:s nearest_mode:s"},
    {"ReverseSequence", 2, 1, "batch_axis:i time_axis:i"},
    {"RoiAlign", 3, 1,
     "coordinate_transformation_mode:s mode:s output_height:i output_width:i sampling_ratio:i "
     "spatial_scale:f"},
    {"RotaryEmbedding", 4, 1, "interleaved:i num_heads:i rotary_embedding_dim:i"},
    {"Round", 1, 1, ""},
    {"Scatter", 3, 1, "axis:i"},
    {"ScatterElements", 3, 1, "axis:i reduction:s"},
    {"ScatterND", 3, 1, "reduction:s"},
    {"Selu", 1, 1, "alpha:f gamma:f"},
    {"Shape", 1, 1, "end:i start:i"},
    {"Shrink", 1, 1, "bias:f lambd:f"},
    {"Sigmoid", 1, 1, ""},
    {"Sign", 1, 1, ""},
    {"Sin", 1, 1, ""},
    {"Sinh", 1, 1, ""},
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
    {"Tan", 1, 1, ""},
    {"Tanh", 1, 1, ""},
    {"TensorScatter", 3, 1, "axis:i mode:s"},
    {"ThresholdedRelu", 1, 1, "alpha:f"},
    {"Tile", 2, 1, ""},
    {"TopK", 2, 2, "axis:i k:i largest:i sorted:i"},
    {"Transpose", 1, 1, "perm:I"},
    {"Trilu", 2, 1, "upper:i"},
    {"Unsqueeze", 2, 1, "axes:I"},
    {"Upsample", 2, 1, "height_scale:f mode:s scales:F width_scale:f"},
    {"Where", 3, 1, ""},
    {"Xor", 2, 1, ""},
};

static_assert(std::is_sorted(std::begin(kSignatures), std::end(kSignatures),
                             [](const OpSignature& a, const OpSignature& b) {
                               return a.op_type < b.op_type;
                             }),
              "find_signature halves the table");

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
