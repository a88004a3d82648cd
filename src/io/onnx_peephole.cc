// Matching walks back from the last node of a chain: operands of + and * are tried in both orders,
// constants are the scalar float initializers and Constant nodes of the model, compared with a
// tolerance of 1e-4 (exporters write them in float).
#include "io/onnx_peephole.h"

#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "base/element.h"

namespace lowtide::io {
namespace {

class Matcher {
 public:
  explicit Matcher(OnnxModel& model) : model_(model) {
    for (size_t n = 0; n < model.nodes.size(); ++n) {
      const OnnxNode& node = model.nodes[n];
      for (const std::string& output : node.outputs) maker_[output] = n;
      for (const std::string& input : node.inputs) ++readers_[input];
      if (node.op_type == "Constant") note_constant(node);
    }
    for (const OnnxValueInfo& output : model.outputs) readers_[output.name] += 2;
    for (const OnnxTensor& tensor : model.initializers) note_scalar(tensor.name, tensor);
  }

  const OnnxModel& model() const { return model_; }

  // The node that makes `name`, if it is of this type.
  const OnnxNode* made_by(const std::string& name, std::string_view op_type) const {
    const auto found = maker_.find(name);
    if (found == maker_.end()) return nullptr;
    const OnnxNode& node = model_.nodes[found->second];
    return node.op_type == op_type && node.domain.empty() ? &node : nullptr;
  }
  // The same, for a value that only one node reads.
  const OnnxNode* inner(const std::string& name, std::string_view op_type) const {
    return readers(name) == 1 ? made_by(name, op_type) : nullptr;
  }
  int readers(const std::string& name) const {
    const auto count = readers_.find(name);
    return count == readers_.end() ? 0 : count->second;
  }
  bool is_scalar(const std::string& name, double value) const {
    const auto found = scalars_.find(name);
    return found != scalars_.end() && std::fabs(found->second - value) <= 1e-4 * std::fabs(value);
  }
  // For op(a, c) in either order with c the scalar: a.
  std::optional<std::string> other_operand(const OnnxNode& node, double scalar) const {
    if (node.inputs.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (is_scalar(node.inputs[i], scalar)) return node.inputs[1 - i];
    return std::nullopt;
  }

 private:
  void note_scalar(const std::string& name, const OnnxTensor& tensor) {
    if (!tensor.dtype || !is_float(*tensor.dtype) ||
        static_cast<int64_t>(tensor.bytes.size()) != size_bytes(*tensor.dtype))
      return;
    scalars_[name] = read_real(*tensor.dtype, tensor.bytes.data());
  }
  void note_constant(const OnnxNode& node) {
    const auto value = node.attrs.find("value");
    if (value != node.attrs.end() && value->second.tensor && !node.outputs.empty())
      note_scalar(node.outputs[0], *value->second.tensor);
  }

  OnnxModel& model_;
  std::map<std::string, size_t, std::less<>> maker_;
  std::map<std::string, int, std::less<>> readers_;
  std::map<std::string, double, std::less<>> scalars_;
};

// What a chain computes: the op and its input.
struct Match {
  std::string op_type, approximate, input;
  std::optional<OnnxAttr> axis = std::nullopt;
};

std::optional<Match> match_silu(const Matcher& matcher, const OnnxNode& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const OnnxNode* sigmoid = matcher.inner(node.inputs[i], "Sigmoid");
    if (sigmoid != nullptr && sigmoid->inputs.size() == 1 &&
        sigmoid->inputs[0] == node.inputs[1 - i])
      return Match{"Silu", "", sigmoid->inputs[0]};
  }
  return std::nullopt;
}

// 1 + function(argument): the argument.
std::optional<std::string> match_one_plus(const Matcher& matcher, const std::string& name,
                                          std::string_view function) {
  const OnnxNode* add = matcher.inner(name, "Add");
  if (add == nullptr) return std::nullopt;
  const auto inside = matcher.other_operand(*add, 1.0);
  if (!inside) return std::nullopt;
  const OnnxNode* call = matcher.inner(*inside, function);
  return call == nullptr || call->inputs.size() != 1 ? std::nullopt
                                                     : std::optional(call->inputs[0]);
}

// sqrt(2/pi) * (x + 0.044715 * x^3): x.
std::optional<std::string> match_tanh_argument(const Matcher& matcher, const std::string& name) {
  const OnnxNode* scale = matcher.inner(name, "Mul");
  const auto sum = scale ? matcher.other_operand(*scale, std::sqrt(2.0 / M_PI)) : std::nullopt;
  const OnnxNode* add = sum ? matcher.inner(*sum, "Add") : nullptr;
  for (size_t i = 0; add != nullptr && i < 2 && add->inputs.size() == 2; ++i) {
    const std::string& x = add->inputs[i];
    const OnnxNode* term = matcher.inner(add->inputs[1 - i], "Mul");
    const auto cube = term ? matcher.other_operand(*term, 0.044715) : std::nullopt;
    const OnnxNode* power = cube ? matcher.inner(*cube, "Pow") : nullptr;
    if (power != nullptr && power->inputs.size() == 2 && power->inputs[0] == x &&
        matcher.is_scalar(power->inputs[1], 3.0))
      return x;
  }
  return std::nullopt;
}

// x / sqrt(2) as a division or a product: x.
std::optional<std::string> match_erf_argument(const Matcher& matcher, const std::string& name) {
  const OnnxNode* divide = matcher.inner(name, "Div");
  if (divide != nullptr && divide->inputs.size() == 2 &&
      matcher.is_scalar(divide->inputs[1], std::sqrt(2.0)))
    return divide->inputs[0];
  const OnnxNode* multiply = matcher.inner(name, "Mul");
  return multiply ? matcher.other_operand(*multiply, std::sqrt(0.5)) : std::nullopt;
}

std::optional<Match> match_gate(const Matcher& matcher, const std::string& gate) {
  if (const auto argument = match_one_plus(matcher, gate, "Tanh"))
    if (const auto x = match_tanh_argument(matcher, *argument)) return Match{"Gelu", "tanh", *x};
  if (const auto argument = match_one_plus(matcher, gate, "Erf"))
    if (const auto x = match_erf_argument(matcher, *argument)) return Match{"Gelu", "none", *x};
  return std::nullopt;
}

// (0.5 x) * gate, 0.5 * (x * gate), and x * (0.5 * gate).
std::optional<Match> match_gelu(const Matcher& matcher, const OnnxNode& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return std::nullopt;
  if (const auto whole = matcher.other_operand(node, 0.5)) {
    const OnnxNode* product = matcher.inner(*whole, "Mul");
    for (size_t i = 0; product != nullptr && i < 2 && product->inputs.size() == 2; ++i)
      if (const auto match = match_gate(matcher, product->inputs[i]);
          match && match->input == product->inputs[1 - i])
        return match;
    return std::nullopt;
  }
  for (size_t i = 0; i < 2; ++i) {
    const OnnxNode* half = matcher.inner(node.inputs[i], "Mul");
    const auto halved = half ? matcher.other_operand(*half, 0.5) : std::nullopt;
    if (!halved) continue;
    if (const auto match = match_gate(matcher, node.inputs[1 - i]);
        match && match->input == *halved)
      return match;
    if (const auto match = match_gate(matcher, *halved);
        match && match->input == node.inputs[1 - i])
      return match;
  }
  return std::nullopt;
}

std::optional<Match> match_safe_softmax(const Matcher& matcher, const OnnxNode& node) {
  if (node.op_type != "Where" || node.inputs.size() != 3 || matcher.model().opset < 13)
    return std::nullopt;
  const std::string& p = node.inputs[2];
  const OnnxNode *softmax = matcher.made_by(p, "Softmax"),
                 *test = matcher.inner(node.inputs[0], "IsNaN");
  if (softmax == nullptr || test == nullptr || test->inputs[0] != p || matcher.readers(p) != 2 ||
      !matcher.is_scalar(node.inputs[1], 0))
    return std::nullopt;
  Match match{"SafeSoftmax", "", softmax->inputs[0]};
  if (const auto axis = softmax->attrs.find("axis"); axis != softmax->attrs.end())
    match.axis = axis->second;
  return match;
}

struct Rule {
  const char* name;
  std::optional<Match> (*match)(const Matcher&, const OnnxNode&);
};
constexpr Rule kRules[] = {
    {"silu", match_silu}, {"gelu", match_gelu}, {"safe_softmax", match_safe_softmax}};

// Nodes of which nothing is read any more, after some became inner parts of a match.
void drop_unread(OnnxModel& model, const std::set<std::string>& candidates) {
  std::map<std::string, int, std::less<>> readers;
  for (const OnnxNode& node : model.nodes)
    for (const std::string& input : node.inputs) ++readers[input];
  for (const OnnxValueInfo& output : model.outputs) ++readers[output.name];
  std::vector<char> unread(model.nodes.size(), 0);
  for (size_t n = model.nodes.size(); n-- > 0;) {
    const OnnxNode& node = model.nodes[n];
    if (node.outputs.size() != 1 || !candidates.contains(node.outputs[0]) ||
        readers[node.outputs[0]] > 0)
      continue;
    for (const std::string& input : node.inputs) --readers[input];
    unread[n] = 1;
  }
  size_t n = 0;
  std::erase_if(model.nodes, [&](const OnnxNode&) { return unread[n++] != 0; });
}

}  // namespace

std::map<std::string, int> apply_peepholes(OnnxModel& model) {
  std::map<std::string, int> applied;
  const Matcher matcher(model);
  std::vector<std::pair<size_t, Match>> matches;
  for (size_t n = 0; n < model.nodes.size(); ++n) {
    if (!model.nodes[n].domain.empty()) continue;
    for (const Rule& rule : kRules) {
      const auto match = rule.match(matcher, model.nodes[n]);
      if (!match) continue;
      ++applied[rule.name];
      matches.emplace_back(n, *match);
      break;
    }
  }
  if (matches.empty()) return applied;
  std::set<std::string> inner;
  for (const OnnxNode& node : model.nodes)
    for (const char* op :
         {"Mul", "Add", "Tanh", "Erf", "Pow", "Div", "Sigmoid", "Softmax", "IsNaN"})
      if (node.op_type == op && node.outputs.size() == 1) inner.insert(node.outputs[0]);
  for (auto& [n, match] : matches) {
    OnnxNode& node = model.nodes[n];
    node.op_type = match.op_type;
    node.domain = kPeepholeDomain;
    node.inputs = {match.input};
    node.attrs.clear();
    if (match.axis) node.attrs["axis"] = *match.axis;
    if (!match.approximate.empty()) node.attrs["approximate"].word = match.approximate;
  }
  drop_unread(model, inner);
  return applied;
}

}  // namespace lowtide::io
