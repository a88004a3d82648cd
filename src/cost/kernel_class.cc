#include "cost/kernel_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace lowtide::cost {
namespace {

constexpr std::array<std::string_view, kKernelClasses> kNames = {"product",
                                                                 "small_product",
                                                                 "thin_product",
                                                                 "convolution",
                                                                 "convolution_data_gradient",
                                                                 "convolution_weight_gradient",
                                                                 "normalization",
                                                                 "softmax",
                                                                 "reduction",
                                                                 "pooling",
                                                                 "elementwise",
                                                                 "movement",
                                                                 "gather",
                                                                 "random",
                                                                 "update"};

constexpr int64_t kSmallExtent = 64;

struct KindClass {
  std::string_view kind;
  KernelClass kernel_class;
};
// Kinds that are not here are elementwise.
constexpr KindClass kKinds[] = {
    {"Conv", KernelClass::kConvolution},
    {"ConvDataGrad", KernelClass::kConvolutionDataGradient},
    {"ConvWgtGrad", KernelClass::kConvolutionWeightGradient},
    {"BatchNormTrain", KernelClass::kNormalization},
    {"BatchNormGrad", KernelClass::kNormalization},
    {"BatchNormInference", KernelClass::kNormalization},
    {"BatchNormGradData", KernelClass::kNormalization},
    {"BatchNormGradSums", KernelClass::kReduction},
    {"BatchMean", KernelClass::kReduction},
    {"BatchVariance", KernelClass::kReduction},
    {"LayerNorm", KernelClass::kNormalization},
    {"LayerNormGrad", KernelClass::kNormalization},
    {"RmsNorm", KernelClass::kNormalization},
    {"RmsNormGrad", KernelClass::kNormalization},
    {"Softmax", KernelClass::kSoftmax},
    {"SoftmaxGrad", KernelClass::kSoftmax},
    {"LogSoftmax", KernelClass::kSoftmax},
    {"LogSoftmaxGrad", KernelClass::kSoftmax},
    {"CrossEntropy", KernelClass::kSoftmax},
    {"CrossEntropyGrad", KernelClass::kSoftmax},
    {"ReduceSum", KernelClass::kReduction},
    {"ReduceMean", KernelClass::kReduction},
    {"ReduceMax", KernelClass::kReduction},
    {"ReduceLogSumExp", KernelClass::kReduction},
    {"ReduceMin", KernelClass::kReduction},
    {"ReduceProd", KernelClass::kReduction},
    {"ReduceProdGrad", KernelClass::kReduction},
    {"MseLoss", KernelClass::kReduction},
    {"CrossEntropyMean", KernelClass::kReduction},
    {"LabelCount", KernelClass::kReduction},
    {"LabelLogits", KernelClass::kGather},
    {"MaxPool", KernelClass::kPooling},
    {"MaxPoolGrad", KernelClass::kPooling},
    {"AvgPool", KernelClass::kPooling},
    {"AvgPoolGrad", KernelClass::kPooling},
    {"Transpose", KernelClass::kMovement},
    {"Reorder", KernelClass::kMovement},
    {"Concat", KernelClass::kMovement},
    {"Slice", KernelClass::kMovement},
    {"Pad", KernelClass::kMovement},
    {"Expand", KernelClass::kMovement},
    {"Copy", KernelClass::kMovement},
    {"Fill", KernelClass::kMovement},
    {"Trilu", KernelClass::kMovement},
    {"Gather", KernelClass::kGather},
    {"GatherGrad", KernelClass::kGather},
    {"Dropout", KernelClass::kRandom},
    {"RandomUniform", KernelClass::kRandom},
    {"AdamWUpdate", KernelClass::kUpdate},
    {"SgdUpdate", KernelClass::kUpdate},
    {"RunningUpdate", KernelClass::kUpdate},
};

KernelClass product_class(const plan::OpDesc& op) {
  if (op.inputs.empty() || !op.inputs[0] || op.outputs.empty()) return KernelClass::kProduct;
  const auto& a = op.inputs[0]->dims;
  const auto& c = op.outputs[0].dims;
  if (a.size() < 2 || c.size() < 2) return KernelClass::kThinProduct;
  const auto found = op.attrs.find("trans_a");
  const auto* flag = found == op.attrs.end() ? nullptr : std::get_if<int64_t>(&found->second);
  const bool transposed = flag != nullptr && *flag != 0;
  const int64_t summed = transposed ? a[a.size() - 2] : a.back();
  const int64_t least = std::min({summed, c[c.size() - 2], c.back()});
  if (least <= 1) return KernelClass::kThinProduct;
  return least <= kSmallExtent ? KernelClass::kSmallProduct : KernelClass::kProduct;
}

std::string type_text(const plan::TensorDesc& type) {
  std::string text = fmt::format("{}[{}]", name(type.dtype), fmt::join(type.dims, ","));
  if (!type.layout.row_major()) text += "@" + print(type.layout);
  return text;
}

// Reals only enter formulas, but an exponent chooses the formula.
bool matters(std::string_view attr, const plan::AttrValue& value) {
  return attr == "exponent" || (attr != "stream" && !std::holds_alternative<double>(value));
}

std::string attr_text(const plan::AttrValue& value) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ","));
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::to_string(std::get<int64_t>(value));
}

}  // namespace

KernelClass kernel_class(const plan::OpDesc& op) {
  if (op.kind == "MatMul") return product_class(op);
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const KindClass& row) { return row.kind == op.kind; });
  return found == std::end(kKinds) ? KernelClass::kElementwise : found->kernel_class;
}

std::string_view name(KernelClass kernel_class) {
  return kNames[static_cast<size_t>(kernel_class)];
}

std::optional<KernelClass> parse_kernel_class(std::string_view text) {
  const auto* found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<KernelClass>(found - kNames.begin());
}

std::string op_key(const plan::OpDesc& op) {
  std::string key = op.kind + "(";
  for (size_t i = 0; i < op.inputs.size(); ++i)
    key += (i == 0 ? "" : ", ") + (op.inputs[i] ? type_text(*op.inputs[i]) : "-");
  key += ") -> (";
  for (size_t i = 0; i < op.outputs.size(); ++i)
    key += (i == 0 ? "" : ", ") + type_text(op.outputs[i]);
  key += ")";
  for (const auto& [attr, value] : op.attrs)
    if (matters(attr, value)) key += fmt::format(" {}={}", attr, attr_text(value));
  return key;
}

std::string_view kind_of(std::string_view key) {
  return key.substr(0, key.find('('));
}

}  // namespace lowtide::cost
