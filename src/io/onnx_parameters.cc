#include "io/onnx_parameters.h"

#include <array>
#include <set>

namespace lowtide::io {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr std::array kWeighted = {"Conv",
                                  "ConvTranspose",
                                  "Gemm",
                                  "MatMul",
                                  "BatchNormalization",
                                  "LayerNormalization",
                                  "RMSNormalization",
                                  "InstanceNormalization",
                                  "GroupNormalization"};

struct Uses {
  Names weights;           // read where ops have their weights
  Names means, variances;  // running statistics of BatchNormalization
};

Uses find_uses(const OnnxModel& model) {
  Uses uses;
  for (const OnnxNode& node : model.nodes) {
    if (node.op_type == "Gather" && !node.inputs.empty()) uses.weights.insert(node.inputs[0]);
    bool weighted = false;
    for (const char* op : kWeighted) weighted |= node.op_type == op;
    if (!weighted) continue;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const size_t place = node.op_type == "BatchNormalization" ? i : 1;
      (place == 4 ? uses.variances : place == 3 ? uses.means : uses.weights).insert(node.inputs[i]);
    }
  }
  return uses;
}

TensorRole role_without_kind(const OnnxTensor& tensor, const Uses& uses, bool kinds_known) {
  if (!tensor.dtype || !is_float(*tensor.dtype) || tensor.dims.empty())
    return TensorRole::kConstant;
  if (tensor.external || uses.weights.contains(tensor.name)) return TensorRole::kTrained;
  if (!kinds_known && tensor.element_count() > 1) return TensorRole::kTrained;
  return TensorRole::kConstant;
}

}  // namespace

TensorRoles tensor_roles(const OnnxModel& model) {
  const Uses uses = find_uses(model);
  std::map<std::string, std::string, std::less<>> kinds;
  for (const OnnxValueInfo& input : model.inputs)
    if (!input.kind.empty()) kinds[input.name] = input.kind;
  for (const auto& [name, info] : model.value_info)
    if (!info.kind.empty()) kinds[name] = info.kind;

  bool kinds_known = false;
  for (const OnnxTensor& tensor : model.initializers) kinds_known |= kinds.contains(tensor.name);
  TensorRoles roles;
  for (const OnnxTensor& tensor : model.initializers) {
    const auto kind = kinds.find(tensor.name);
    const std::string word = kind == kinds.end() ? "" : kind->second;
    TensorRole role = role_without_kind(tensor, uses, kinds_known);
    if (word == "PARAMETER") role = TensorRole::kTrained;
    const bool real = tensor.dtype && is_float(*tensor.dtype);
    if (word == "BUFFER") role = real ? TensorRole::kBuffer : TensorRole::kConstant;
    if (word == "CONSTANT_TENSOR") role = TensorRole::kConstant;
    if (uses.means.contains(tensor.name)) role = TensorRole::kBuffer;
    if (uses.variances.contains(tensor.name)) role = TensorRole::kVariance;
    roles[tensor.name] = role;
  }
  return roles;
}

}  // namespace lowtide::io
