#include "io/onnx_sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/element.h"
#include "io/host_value.h"
#include "io/onnx_attrs.h"

namespace lowtide::io {
namespace {

using Numbers = std::vector<int64_t>;

bool is(const OnnxNode& node, std::string_view op_type) {
  return node.op_type == op_type && node.domain.empty() && !node.outputs.empty();
}

class SequenceReplacer {
 public:
  explicit SequenceReplacer(OnnxModel& model) : model_(model) {
    for (const OnnxTensor& tensor : model.initializers) note(tensor.name, tensor);
    for (const OnnxTensor& tensor : model.initializers) names_.insert(tensor.name);
    for (const OnnxNode& node : model.nodes)
      names_.insert(node.outputs.begin(), node.outputs.end());
  }

  void run() {
    std::vector<OnnxNode> nodes;
    for (OnnxNode& node : model_.nodes) {
      look_at(node);
      std::optional<std::vector<OnnxNode>> instead = replaced(node);
      if (!instead) {
        nodes.push_back(std::move(node));
        continue;
      }
      for (OnnxNode& one : *instead) nodes.push_back(std::move(one));
    }
    model_.nodes = std::move(nodes);
    drop_unread();
  }

 private:
  // A number or a list of them that stands in the file.
  struct Known {
    bool scalar = false;
    Numbers numbers;
  };

  void note(const std::string& name, const OnnxTensor& tensor) {
    if (!tensor.dtype || is_float(*tensor.dtype) || tensor.external || tensor.dims.size() > 1)
      return;
    const auto value = host_from_tensor(tensor);
    if (!value) return;
    if (auto numbers = host_constants(*value)) known_[name] = {tensor.dims.empty(), *numbers};
  }

  void look_at(const OnnxNode& node) {
    if (is(node, "Constant"))
      for (const auto& [name, attr] : node.attrs) {
        if (attr.tensor) note(node.outputs[0], *attr.tensor);
        if (attr.integer) known_[node.outputs[0]] = {true, {*attr.integer}};
        if (!attr.integers.empty()) known_[node.outputs[0]] = {false, attr.integers};
      }
    if (is(node, "SplitToSequence") || is(node, "SequenceConstruct"))
      made_.insert_or_assign(node.outputs[0], node);
  }

  std::optional<std::vector<OnnxNode>> replaced(const OnnxNode& node) {
    const bool at = is(node, "SequenceAt"), joined = is(node, "ConcatFromSequence");
    if (!at && !joined) return std::nullopt;
    const auto made = node.inputs.empty() ? made_.end() : made_.find(node.inputs[0]);
    if (made == made_.end()) return std::nullopt;
    if (joined) return is(made->second, "SequenceConstruct") ? concat(node, made->second) : none();
    const auto place = node.inputs.size() == 2 ? known_.find(node.inputs[1]) : known_.end();
    if (place == known_.end() || place->second.numbers.size() != 1) return std::nullopt;
    const int64_t k = place->second.numbers[0];
    return is(made->second, "SplitToSequence") ? slice(node, made->second, k)
                                               : element(node, made->second, k);
  }
  static std::optional<std::vector<OnnxNode>> none() { return std::nullopt; }

  // Where the k-th piece lies along the axis.
  std::optional<std::pair<int64_t, int64_t>> piece(const OnnxNode& split, int64_t k) const {
    if (split.inputs.size() < 2 || split.inputs[1].empty()) return std::pair{k, k + 1};
    const auto sizes = known_.find(split.inputs[1]);
    if (sizes == known_.end()) return std::nullopt;
    const Numbers& numbers = sizes->second.numbers;
    if (sizes->second.scalar) return std::pair{k * numbers[0], (k + 1) * numbers[0]};
    if (k >= static_cast<int64_t>(numbers.size())) return std::nullopt;
    int64_t begin = 0;
    for (int64_t i = 0; i < k; ++i) begin += numbers[static_cast<size_t>(i)];
    return std::pair{begin, begin + numbers[static_cast<size_t>(k)]};
  }

  std::optional<std::vector<OnnxNode>> slice(const OnnxNode& node, const OnnxNode& split,
                                             int64_t k) {
    const auto sizes = split.inputs.size() < 2 ? known_.end() : known_.find(split.inputs[1]);
    if (k < 0 && sizes != known_.end() && !sizes->second.scalar)
      k += static_cast<int64_t>(sizes->second.numbers.size());
    const auto place = piece(split, k);
    if (k < 0 || !place || split.inputs.empty()) return std::nullopt;
    const int64_t axis = int_attr(split, "axis", 0);
    const bool single = split.inputs.size() < 2 || split.inputs[1].empty();
    const bool squeezed = single && int_attr(split, "keepdims", 1) == 0;
    OnnxNode cut = like(node, "Slice");
    cut.inputs = {split.inputs[0], numbers({place->first}), numbers({place->second}),
                  numbers({axis})};
    if (!squeezed) return std::vector{cut};
    OnnxNode squeeze = like(node, "Squeeze");
    cut.outputs = {fresh(node.outputs[0])};
    squeeze.inputs = {cut.outputs[0]};
    if (model_.opset >= 13)
      squeeze.inputs.push_back(numbers({axis}));
    else
      squeeze.attrs["axes"].integers = {axis};
    return std::vector{cut, squeeze};
  }

  static std::optional<std::vector<OnnxNode>> element(const OnnxNode& node,
                                                      const OnnxNode& sequence, int64_t k) {
    const auto count = static_cast<int64_t>(sequence.inputs.size());
    if (k < 0) k += count;
    if (k < 0 || k >= count) return std::nullopt;
    OnnxNode same = like(node, "Identity");
    same.inputs = {sequence.inputs[static_cast<size_t>(k)]};
    return std::vector{same};
  }

  std::optional<std::vector<OnnxNode>> concat(const OnnxNode& node, const OnnxNode& sequence) {
    const int64_t axis = int_attr(node, "axis", 0);
    OnnxNode whole = like(node, "Concat");
    whole.attrs["axis"].integer = axis;
    whole.attrs["axis"].type = 2;
    std::vector<OnnxNode> nodes;
    for (const std::string& part : sequence.inputs) {
      whole.inputs.push_back(part);
      if (int_attr(node, "new_axis", 0) == 0) continue;
      if (model_.opset < 13) return std::nullopt;
      OnnxNode wider = like(node, "Unsqueeze");
      wider.inputs = {part, numbers({axis})};
      wider.outputs = {whole.inputs.back() = fresh(node.outputs[0])};
      nodes.push_back(std::move(wider));
    }
    nodes.push_back(std::move(whole));
    return nodes;
  }

  static OnnxNode like(const OnnxNode& node, const char* op_type) {
    OnnxNode made;
    made.op_type = op_type;
    made.name = node.name;
    made.module = node.module;
    made.outputs = {node.outputs[0]};
    return made;
  }

  std::string fresh(const std::string& stem) {
    std::string name;
    do name = fmt::format("{}/{}", stem, ++made_names_);
    while (names_.contains(name));
    return *names_.insert(std::move(name)).first;
  }

  // An initializer with these numbers.
  std::string numbers(const Numbers& values) {
    OnnxTensor tensor;
    tensor.name = fresh("numbers");
    tensor.type_code = 7;
    tensor.dtype = DType::kI64;
    tensor.dims = {static_cast<int64_t>(values.size())};
    tensor.bytes.resize(values.size() * sizeof(int64_t));
    for (size_t i = 0; i < values.size(); ++i)
      write_integer(DType::kI64, values[i], tensor.bytes.data() + i * sizeof(int64_t));
    model_.initializers.push_back(tensor);
    return tensor.name;
  }

  // Sequences that nobody reads any more.
  void drop_unread() {
    std::set<std::string, std::less<>> read;
    for (const OnnxNode& node : model_.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const OnnxValueInfo& output : model_.outputs) read.insert(output.name);
    std::erase_if(model_.nodes, [&](const OnnxNode& node) {
      return (is(node, "SplitToSequence") || is(node, "SequenceConstruct")) &&
             !read.contains(node.outputs[0]);
    });
  }

  OnnxModel& model_;
  std::map<std::string, Known, std::less<>> known_;
  std::map<std::string, OnnxNode, std::less<>> made_;  // sequences
  std::set<std::string, std::less<>> names_;
  int64_t made_names_ = 0;
};

}  // namespace

void replace_sequences(OnnxModel& model) {
  const bool any = std::any_of(model.nodes.begin(), model.nodes.end(), [](const OnnxNode& node) {
    return is(node, "SequenceAt") || is(node, "ConcatFromSequence");
  });
  if (any) SequenceReplacer(model).run();
}

}  // namespace lowtide::io
