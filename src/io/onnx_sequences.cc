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
using Nodes = std::vector<OnnxNode>;

// Of pieces of one size, and of the elements before the end of one: what a file may ask for.
constexpr int64_t kMostPieces = int64_t{1} << 20;
constexpr int64_t kLongestAxis = int64_t{1} << 40;

struct Known {
  bool scalar = false;
  Numbers numbers;
};

bool is(const OnnxNode& node, std::string_view op_type) {
  return node.op_type == op_type && node.domain.empty() && !node.outputs.empty();
}

class SequenceReplacer {
 public:
  explicit SequenceReplacer(OnnxModel& model) : model_(model) {
    for (const OnnxTensor& tensor : model.initializers) {
      names_.insert(tensor.name);
      if (tensor.dtype && !tensor.external) note(tensor.name, host_from_tensor(tensor));
    }
    for (const OnnxNode& node : model.nodes)
      names_.insert(node.outputs.begin(), node.outputs.end());
  }

  void run() {
    Nodes nodes;
    for (OnnxNode& node : model_.nodes) {
      look_at(node);
      std::optional<Nodes> instead = replaced(node);
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
  // Integers that stand in the file: one (dims are empty) or a list.
  void note(const std::string& name, const Result<HostValue>& value) {
    if (!value || is_float(value->dtype) || value->dims.size() > 1) return;
    if (auto numbers = host_constants(*value)) known_[name] = {value->dims.empty(), *numbers};
  }

  void look_at(const OnnxNode& node) {
    if (is(node, "Constant")) note(node.outputs[0], host_from_constant(node));
    if (is(node, "SplitToSequence") || is(node, "SequenceConstruct"))
      made_.insert_or_assign(node.outputs[0], node);
  }

  const Known* known(const OnnxNode& node, size_t input) const {
    const auto found = input < node.inputs.size() ? known_.find(node.inputs[input]) : known_.end();
    return found == known_.end() ? nullptr : &found->second;
  }

  // None where the node stays as it is.
  std::optional<Nodes> replaced(const OnnxNode& node) {
    const bool at = is(node, "SequenceAt"), joined = is(node, "ConcatFromSequence");
    const auto made =
        (at || joined) && !node.inputs.empty() ? made_.find(node.inputs[0]) : made_.end();
    if (made == made_.end()) return std::nullopt;
    const OnnxNode& sequence = made->second;
    const bool split = is(sequence, "SplitToSequence");
    if (joined) return split ? std::nullopt : concat(node, sequence);
    const Known* place = known(node, 1);
    if (place == nullptr || place->numbers.size() != 1) return std::nullopt;
    return split ? slice(node, sequence, place->numbers[0])
                 : element(node, sequence, place->numbers[0]);
  }

  // Where the k-th piece lies along the axis; the sizes are absent (all 1), one, or one for each.
  static std::optional<std::pair<int64_t, int64_t>> piece(const Known* sizes, int64_t k) {
    const bool listed = sizes != nullptr && !sizes->scalar;
    const int64_t count = listed ? static_cast<int64_t>(sizes->numbers.size()) : kMostPieces;
    if (listed && k < 0) k += count;
    if (k < 0 || k >= count) return std::nullopt;
    int64_t begin = 0, size = 1;
    if (sizes != nullptr) size = sizes->numbers[listed ? static_cast<size_t>(k) : 0];
    for (int64_t i = 0; i < k; ++i) {
      const int64_t before = listed ? sizes->numbers[static_cast<size_t>(i)] : size;
      if (before < 0 || before > kLongestAxis - begin) return std::nullopt;
      begin += before;
    }
    if (size < 0 || size > kLongestAxis - begin) return std::nullopt;
    return std::pair{begin, begin + size};
  }

  std::optional<Nodes> slice(const OnnxNode& node, const OnnxNode& split, int64_t k) {
    const bool sized = split.inputs.size() > 1 && !split.inputs[1].empty();
    const Known* sizes = known(split, 1);
    if (split.inputs.empty() || (sized && sizes == nullptr)) return std::nullopt;
    const auto place = piece(sizes, k);
    if (!place) return std::nullopt;
    const int64_t axis = int_attr(split, "axis", 0);
    OnnxNode cut = like(node, "Slice");
    cut.inputs = {split.inputs[0], numbers({place->first}), numbers({place->second}),
                  numbers({axis})};
    if (sized || int_attr(split, "keepdims", 1) != 0) return Nodes{cut};
    OnnxNode squeeze = like(node, "Squeeze");
    cut.outputs = {fresh(node.outputs[0])};
    squeeze.inputs = {cut.outputs[0]};
    if (model_.opset >= 13)
      squeeze.inputs.push_back(numbers({axis}));
    else
      squeeze.attrs["axes"].integers = {axis};
    return Nodes{cut, squeeze};
  }

  static std::optional<Nodes> element(const OnnxNode& node, const OnnxNode& sequence, int64_t k) {
    const auto count = static_cast<int64_t>(sequence.inputs.size());
    if (k < 0) k += count;
    if (k < 0 || k >= count) return std::nullopt;
    OnnxNode same = like(node, "Identity");
    same.inputs = {sequence.inputs[static_cast<size_t>(k)]};
    return Nodes{same};
  }

  std::optional<Nodes> concat(const OnnxNode& node, const OnnxNode& sequence) {
    const int64_t axis = int_attr(node, "axis", 0);
    OnnxNode whole = like(node, "Concat");
    whole.attrs["axis"].integer = axis;
    whole.attrs["axis"].type = 2;
    Nodes nodes;
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
    made.source = node.source;
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
