#include "io/onnx_parameters.h"

#include <algorithm>
#include <array>
#include <cctype>
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
                                  "GroupNormalization",
                                  "PRelu"};

// Ops whose first output is their first input in another form.
constexpr std::array kForms = {"Identity",  "Cast",    "CastLike",  "Reshape", "Squeeze",
                               "Unsqueeze", "Flatten", "Transpose", "Dropout"};

// Inputs from `first` on that are no weights: they must be known when the model is read.
struct KnownInputs {
  const char* op_type;
  size_t first;
};
constexpr KnownInputs kKnown[] = {{"OneHot", 1}};

// Inputs from `first` on that no training changes: weights of classes, tables of rotary embeddings,
// scales and zero points, masks.
constexpr KnownInputs kFixed[] = {{"NegativeLogLikelihoodLoss", 2}, {"SoftmaxCrossEntropyLoss", 2},
                                  {"RotaryEmbedding", 1},           {"QuantizeLinear", 1},
                                  {"DequantizeLinear", 1},          {"Attention", 3}};

// Lengths and states that a recurrent network starts from.
constexpr KnownInputs kStarts[] = {{"LSTM", 4}, {"GRU", 4}, {"RNN", 4}};

// Inputs from `first` on that decide a shape: what they are computed from is no weight either.
constexpr KnownInputs kShapes[] = {
    {"Resize", 1}, {"Upsample", 1}, {"Reshape", 1}, {"Expand", 1},          {"Tile", 1},
    {"Slice", 1},  {"TopK", 1},     {"Range", 0},   {"ConstantOfShape", 0}, {"Pad", 1}};

// The ops of such computing, beside kForms.
constexpr std::array kShapeArithmetic = {
    "Add",    "Sub",    "Mul",   "Div",   "Pow",  "Mod",     "Neg",       "Sqrt",
    "Floor",  "Ceil",   "Round", "Max",   "Min",  "Concat",  "Slice",     "Split",
    "Gather", "Expand", "Where", "Equal", "Less", "Greater", "ReduceProd"};

// Inputs from `first` on that are settings of an op, whatever their tensor is called.
constexpr KnownInputs kSettings[] = {{"Clip", 1}, {"Dropout", 1}, {"Pad", 1}};

// Ends of names.
constexpr const char* kBuffers[] = {"running_mean", "running_var", "inv_freq", "embed_scale"};

// Ops of torch.export whose results it folds.
constexpr std::array<std::string_view, 31> kTracedOps = {"val",
                                                         "scalar_tensor_default",
                                                         "scalar_tensor",
                                                         "zeros",
                                                         "zeros_like",
                                                         "ones",
                                                         "full",
                                                         "full_like",
                                                         "ones_like",
                                                         "clone",
                                                         "index",
                                                         "lift_fresh_copy",
                                                         "add",
                                                         "sub",
                                                         "mul",
                                                         "div",
                                                         "pow",
                                                         "sqrt",
                                                         "rsqrt",
                                                         "neg",
                                                         "exp",
                                                         "log",
                                                         "reciprocal",
                                                         "arange",
                                                         "view",
                                                         "select",
                                                         "unsqueeze",
                                                         "expand",
                                                         "_to_copy",
                                                         "_tensor_constant",
                                                         "c_lifted_tensor"};

constexpr std::array kTables = {"Gather", "GatherND", "GatherElements"};

constexpr std::array kProducts = {"Conv", "ConvTranspose", "Gemm", "MatMul"};

constexpr std::array kRecurrent = {"LSTM", "GRU", "RNN"};
constexpr std::array<size_t, 4> kRecurrentWeights = {1, 2, 3, 7};  // W, R, biases, peepholes

template <class List>
bool is_one_of(const OnnxNode& node, const List& ops) {
  return node.domain.empty() && std::find(ops.begin(), ops.end(), node.op_type) != ops.end();
}

struct ParameterUses {
  Names weights;           // read where ops have their weights
  Names tables;            // read as the table of a lookup
  Names means, variances;  // running statistics of BatchNormalization
  Names known;             // read where ops must know them
  Names fixed;             // read where ops have what no training changes
  Names starts;            // read as the state that a recurrent network starts from
  Names settings;          // read where ops have settings
  Names biases;            // added to a product with a tensor of the file
};

class UseFinder {
 public:
  explicit UseFinder(const OnnxModel& model) {
    for (const OnnxNode& node : model.nodes)
      if (is_one_of(node, kForms) && !node.inputs.empty() && !node.outputs.empty())
        form_of_.emplace(node.outputs[0], node.inputs[0]);
    for (const OnnxTensor& tensor : model.initializers) tensors_.insert(tensor.name);
    for (const OnnxNode& node : model.nodes) look_at(node);
    look_behind_shapes(model.nodes);
  }
  const ParameterUses& uses() const { return uses_; }

 private:
  void look_at(const OnnxNode& node) {
    look_at_sum(node);
    if (is_one_of(node, kTables) && !node.inputs.empty()) note(uses_.tables, node.inputs[0]);
    if (is_one_of(node, kRecurrent))
      for (size_t i : kRecurrentWeights)
        if (i < node.inputs.size()) note(uses_.weights, node.inputs[i]);
    note_inputs(node, kKnown, uses_.known);
    note_inputs(node, kFixed, uses_.fixed);
    note_inputs(node, kStarts, uses_.starts);
    note_inputs(node, kSettings, uses_.settings);
    if (!is_one_of(node, kWeighted)) return;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const size_t place = node.op_type == "BatchNormalization" ? i : 1;
      note(place == 4 ? uses_.variances : place == 3 ? uses_.means : uses_.weights, node.inputs[i]);
    }
  }
  template <size_t kRows>
  void note_inputs(const OnnxNode& node, const KnownInputs (&rows)[kRows], Names& names) {
    for (const KnownInputs& row : rows)
      for (size_t i = row.first; node.op_type == row.op_type && i < node.inputs.size(); ++i)
        note(names, node.inputs[i]);
  }
  // Backwards through the arithmetic that ends in a shape; nodes are in order.
  void look_behind_shapes(const std::vector<OnnxNode>& nodes) {
    Names shapes;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const bool within = (is_one_of(*node, kShapeArithmetic) || is_one_of(*node, kForms)) &&
                          std::any_of(node->outputs.begin(), node->outputs.end(),
                                      [&](const auto& name) { return shapes.contains(name); });
      if (within) shapes.insert(node->inputs.begin(), node->inputs.end());
      for (const KnownInputs& row : kShapes)
        for (size_t i = row.first; node->op_type == row.op_type && i < node->inputs.size(); ++i)
          shapes.insert(node->inputs[i]);
    }
    for (const std::string& name : shapes)
      if (!name.empty()) uses_.known.insert(name);
  }
  // Products with a tensor of the file, and what is added to them.
  void look_at_sum(const OnnxNode& node) {
    if (node.inputs.empty() || node.outputs.empty()) return;
    const bool product = is_one_of(node, kProducts) && node.inputs.size() > 1 &&
                         (tensors_.contains(origin_of(node.inputs[0])) ||
                          tensors_.contains(origin_of(node.inputs[1])));
    const bool same = is_one_of(node, kForms) && products_.contains(node.inputs[0]);
    if (product || same) products_.insert(node.outputs[0]);
    if (!node.domain.empty() || node.op_type != "Add" || node.inputs.size() != 2) return;
    for (const size_t i : {0U, 1U})
      if (products_.contains(node.inputs[i])) note(uses_.biases, node.inputs[1 - i]);
  }
  std::string origin_of(std::string name) const {
    for (auto form = form_of_.find(name); form != form_of_.end(); form = form_of_.find(name))
      name = form->second;
    return name;
  }
  // The name and what it is a form of: nodes are in order, so a chain ends.
  void note(Names& names, std::string name) {
    while (names.insert(name).second) {
      const auto form = form_of_.find(name);
      if (form == form_of_.end()) return;
      name = form->second;
    }
  }

  std::map<std::string, std::string, std::less<>> form_of_;
  Names tensors_;   // initializers
  Names products_;  // results of products with one of them, and their forms
  ParameterUses uses_;
};

// What the file says of its tensors as a whole.
struct FileHabits {
  bool tells_kinds = false;         // of at least one initializer
  bool pytorch_names = false;       // PyTorch's own names for parameters and buffers
  bool float_initializers = false;  // of more than one element
  // Constant nodes are weights, and no float initializer can be one.
  bool weights_are_nodes = false;
};

using Kinds = std::map<std::string, std::string, std::less<>>;

// What PyTorch's exporter says of inputs and initializers.
Kinds kinds_of(const OnnxModel& model) {
  Kinds kinds;
  for (const OnnxValueInfo& input : model.inputs)
    if (!input.kind.empty()) kinds[input.name] = input.kind;
  for (const auto& [name, info] : model.value_info)
    if (!info.kind.empty()) kinds[name] = info.kind;
  return kinds;
}

FileHabits habits_of(const OnnxModel& model, const ParameterUses& uses, const Kinds& kinds) {
  FileHabits habits;
  habits.pytorch_names = model.producer.starts_with("pytorch");
  for (const OnnxTensor& tensor : model.initializers) {
    if (tensor.constant_node) {
      habits.weights_are_nodes |= uses.weights.contains(tensor.name);
      continue;
    }
    habits.tells_kinds |= kinds.contains(tensor.name);
    habits.float_initializers |= tensor.dtype && is_float(*tensor.dtype) && !tensor.dims.empty() &&
                                 tensor.element_count() > 1;
  }
  habits.weights_are_nodes &= !habits.float_initializers;
  return habits;
}

// A path of modules ("head.bias", "scale"), not what the exporter made up.
bool is_path_of_modules(const std::string& name) {
  const bool word = !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 ||
                                      (name[0] == '_' && !name.starts_with("_v_")));
  return word && name.find("::") == std::string::npos && name.find('/') == std::string::npos;
}

// PyTorch's running statistics, also where they are not read by a BatchNormalization, and what
// libraries of transformers register as buffers.
bool is_buffer(const std::string& name) {
  return std::any_of(std::begin(kBuffers), std::end(kBuffers),
                     [&](const char* end) { return name.ends_with(end); });
}

// "val_274", "scalar_tensor_default", "zeros_1": what torch.export calls the result of an op.
bool is_name_of_an_op(std::string_view op) {
  const size_t end = op.find_last_not_of("0123456789");
  if (end != std::string_view::npos && end + 1 < op.size() && op[end] == '_')
    op = op.substr(0, end);
  return std::find(kTracedOps.begin(), kTracedOps.end(), op) != kTracedOps.end();
}

// One number of an op's name is an exponent, an epsilon, a scale; a larger tensor may have been
// computed from parameters.
bool is_number_of_an_op(const OnnxTensor& tensor) {
  return tensor.element_count() == 1 && is_name_of_an_op(tensor.name);
}

TensorRole role_without_kind(const OnnxTensor& tensor, const ParameterUses& uses,
                             const FileHabits& habits) {
  if (!tensor.dtype || !is_float(*tensor.dtype)) return TensorRole::kConstant;
  const bool scalar = tensor.dims.empty();
  const bool weight = !scalar && uses.weights.contains(tensor.name);
  const bool named = habits.pytorch_names && !tensor.constant_node &&
                     is_path_of_modules(tensor.name) && !uses.settings.contains(tensor.name) &&
                     !is_number_of_an_op(tensor);
  if (named && is_buffer(tensor.name)) return TensorRole::kBuffer;
  if (uses.known.contains(tensor.name) && !weight) return TensorRole::kConstant;
  if (uses.fixed.contains(tensor.name) && !weight)
    return tensor.external ? TensorRole::kBuffer : TensorRole::kConstant;
  const bool traced = is_name_of_an_op(tensor.name);
  if (uses.starts.contains(tensor.name) && !weight && (!named || traced || habits.tells_kinds))
    return TensorRole::kConstant;
  if (tensor.constant_node && habits.tells_kinds) return TensorRole::kConstant;
  // PyTorch writes what it made up (ones for a norm without weights) beside its own initializers.
  if (tensor.constant_node && habits.pytorch_names && habits.float_initializers)
    return TensorRole::kConstant;
  if (weight) return TensorRole::kTrained;
  if (tensor.constant_node && !habits.weights_are_nodes) return TensorRole::kConstant;
  if (!scalar && (tensor.external || uses.tables.contains(tensor.name)))
    return TensorRole::kTrained;
  if (habits.tells_kinds) return TensorRole::kConstant;
  const bool bias = !scalar && uses.biases.contains(tensor.name);
  return named || bias || tensor.element_count() > 1 ? TensorRole::kTrained : TensorRole::kConstant;
}

}  // namespace

void constants_to_initializers(OnnxModel& model) {
  std::vector<OnnxNode> nodes;
  for (OnnxNode& node : model.nodes) {
    const auto value = node.attrs.find("value");
    const bool holds = node.op_type == "Constant" && node.domain.empty() &&
                       node.outputs.size() == 1 && node.attrs.size() == 1 &&
                       value != node.attrs.end() && value->second.tensor;
    if (!holds) {
      nodes.push_back(std::move(node));
      continue;
    }
    OnnxTensor tensor = std::move(*value->second.tensor);
    tensor.name = node.outputs[0];
    tensor.constant_node = true;
    model.initializers.push_back(std::move(tensor));
  }
  model.nodes = std::move(nodes);
}

std::vector<std::string> untold_floats(const OnnxModel& model, const TensorRoles& roles) {
  std::vector<std::string> names;
  const auto told = kinds_of(model);
  if (told.empty()) return names;
  for (const OnnxTensor& tensor : model.initializers) {
    const bool floats = tensor.dtype && is_float(*tensor.dtype) && tensor.element_count() > 1;
    if (floats && !tensor.constant_node && !told.contains(tensor.name) &&
        roles.at(tensor.name) == TensorRole::kConstant)
      names.push_back(tensor.name);
  }
  return names;
}

TensorRoles tensor_roles(const OnnxModel& model) {
  const UseFinder finder(model);
  const ParameterUses& uses = finder.uses();
  const Kinds kinds = kinds_of(model);
  const FileHabits habits = habits_of(model, uses, kinds);
  TensorRoles roles;
  for (const OnnxTensor& tensor : model.initializers) {
    const auto kind = kinds.find(tensor.name);
    const std::string word = kind == kinds.end() ? "" : kind->second;
    TensorRole role = role_without_kind(tensor, uses, habits);
    if (word == "PARAMETER") role = TensorRole::kTrained;
    const bool real = tensor.dtype && is_float(*tensor.dtype);
    if (word == "BUFFER") role = real ? TensorRole::kBuffer : TensorRole::kConstant;
    if (word == "CONSTANT_TENSOR") role = TensorRole::kConstant;
    if (uses.means.contains(tensor.name)) role = TensorRole::kMean;
    if (uses.variances.contains(tensor.name)) role = TensorRole::kVariance;
    roles[tensor.name] = role;
  }
  return roles;
}

}  // namespace lowtide::io
