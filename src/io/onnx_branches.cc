// Names are unique over a graph and the subgraphs in it, but some exporters use a name again in
// another branch; so what clashes with a name of the model is renamed. A subgraph within the branch
// keeps its own names: only what it reads from around it follows the change.
#include "io/onnx_branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "io/convert.h"
#include "io/onnx_functions.h"
#include "io/onnx_order.h"

namespace lowtide::io {
namespace {

using Names = std::set<std::string, std::less<>>;
using Renamed = std::map<std::string, std::string, std::less<>>;

// Nodes converted to find conditions, over all rounds.
constexpr size_t kMostNodes = size_t{1} << 23;

Names made_in(const OnnxSubgraph& graph) {
  Names names(graph.inputs.begin(), graph.inputs.end());
  for (const OnnxTensor& tensor : graph.initializers) names.insert(tensor.name);
  for (const OnnxNode& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

void rename(std::string& name, const Renamed& renamed) {
  if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
}

// What the subgraphs of a node read, to any depth.
void rename_captured(OnnxNode& node, const Renamed& renamed) {
  std::vector<std::pair<OnnxSubgraph*, Renamed>> todo;
  const auto push = [&todo](OnnxNode& holder, const Renamed& seen) {
    for (auto& [name, attr] : holder.attrs)
      for (OnnxSubgraph& graph : attr.subgraph) todo.emplace_back(&graph, seen);
  };
  push(node, renamed);
  while (!todo.empty()) {
    auto [graph, seen] = std::move(todo.back());
    todo.pop_back();
    for (const std::string& own : made_in(*graph)) seen.erase(own);
    for (OnnxNode& inner : graph->nodes) {
      for (std::string& input : inner.inputs) rename(input, seen);
      push(inner, seen);
    }
    for (std::string& output : graph->outputs) rename(output, seen);
  }
}

Names names_of(const OnnxModel& model) {
  Names names;
  for (const OnnxValueInfo& input : model.inputs) names.insert(input.name);
  for (const OnnxTensor& tensor : model.initializers) names.insert(tensor.name);
  for (const OnnxNode& node : model.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

OnnxSubgraph* branch_of(OnnxNode& node, bool condition) {
  const auto found = node.attrs.find(condition ? "then_branch" : "else_branch");
  if (found == node.attrs.end() || found->second.subgraph.empty()) return nullptr;
  return &found->second.subgraph[0];
}

// The new names of what the branch makes: the If's outputs, or fresh ones where they clash.
Renamed new_names(const OnnxNode& node, const OnnxSubgraph& branch, Names& taken) {
  Renamed renamed;
  Names made;
  for (const OnnxNode& inner : branch.nodes)
    made.insert(inner.outputs.begin(), inner.outputs.end());
  for (size_t i = 0; i < branch.outputs.size(); ++i)
    if (made.contains(branch.outputs[i]) && !node.outputs[i].empty())
      renamed.try_emplace(branch.outputs[i], node.outputs[i]);
  const std::string prefix = node.name.empty() ? node.outputs[0] : node.name;
  for (const std::string& name : made_in(branch)) {
    if (name.empty() || renamed.contains(name)) continue;
    std::string fresh = name;
    for (int n = 0; taken.contains(fresh); ++n)
      fresh =
          n == 0 ? fmt::format("{}/{}", prefix, name) : fmt::format("{}/{}.{}", prefix, name, n);
    taken.insert(fresh);
    if (fresh != name) renamed.emplace(name, std::move(fresh));
  }
  return renamed;
}

// The branch's nodes in place of the If's, from which they are taken, its initializers beside the
// model's.
Status put_in(OnnxModel& model, OnnxNode& node, bool condition, Names& taken,
              std::vector<OnnxNode>& nodes) {
  OnnxSubgraph* found = branch_of(node, condition);
  const std::string which = condition ? "then_branch" : "else_branch";
  if (found == nullptr)
    return node_error(model, node, {ErrorCode::kInput, fmt::format("has no {}", which)});
  if (found->outputs.size() != node.outputs.size() || !found->inputs.empty())
    return node_error(
        model, node,
        {ErrorCode::kInput,
         fmt::format("has {} outputs and no inputs for a branch, its {} {} and {}",
                     node.outputs.size(), which, found->outputs.size(), found->inputs.size())});
  OnnxSubgraph branch = std::move(*found);
  const Renamed renamed = new_names(node, branch, taken);
  for (OnnxTensor& tensor : branch.initializers) {
    rename(tensor.name, renamed);
    model.initializers.push_back(std::move(tensor));
  }
  for (OnnxNode& inner : branch.nodes) {
    for (std::string& input : inner.inputs) rename(input, renamed);
    for (std::string& output : inner.outputs) rename(output, renamed);
    rename_captured(inner, renamed);
    if (inner.module.empty()) inner.module = node.module;
    if (inner.source.empty()) inner.source = node.source;
    nodes.push_back(std::move(inner));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    std::string from = branch.outputs[i];
    rename(from, renamed);
    model.value_info.erase(node.outputs[i]);  // says what holds for both branches, often too little
    if (node.outputs[i].empty() || from == node.outputs[i]) continue;
    OnnxNode same;
    same.op_type = "Identity";
    same.module = node.module;
    same.source = node.source;
    same.inputs = {from};
    same.outputs = {node.outputs[i]};
    nodes.push_back(std::move(same));
  }
  return {};
}

}  // namespace

std::set<std::string> captured_names(const OnnxNode& node) {
  std::set<std::string> read;
  std::vector<std::pair<const OnnxSubgraph*, Names>> todo;
  const auto push = [&todo](const OnnxNode& holder, const Names& made) {
    for (const auto& [name, attr] : holder.attrs)
      for (const OnnxSubgraph& graph : attr.subgraph) todo.emplace_back(&graph, made);
  };
  push(node, {});
  while (!todo.empty()) {
    const OnnxSubgraph* graph = todo.back().first;
    Names made = std::move(todo.back().second);
    todo.pop_back();
    made.merge(made_in(*graph));
    const auto note = [&read, &made](const std::string& name) {
      if (!name.empty() && !made.contains(name)) read.insert(name);
    };
    for (const OnnxNode& inner : graph->nodes) {
      for (const std::string& input : inner.inputs) note(input);
      push(inner, made);
    }
    for (const std::string& output : graph->outputs) note(output);
  }
  return read;
}

Status take_branches(OnnxModel& model, const OnnxOptions& options) {
  size_t work = 0;
  while (true) {
    LT_RETURN_IF_ERROR(expand_functions(model));
    LT_RETURN_IF_ERROR(order_nodes(model));
    if (std::none_of(model.nodes.begin(), model.nodes.end(), is_if)) return {};
    work += model.nodes.size();
    if (work > kMostNodes)
      return error(ErrorCode::kInput,
                   fmt::format("{}: Ifs behind Ifs: more than {} nodes read to decide them",
                               model.origin, kMostNodes));
    Conversion conversion(model, options);
    conversion.dry_run();
    const std::map<size_t, bool>& known = conversion.known_conditions();
    if (known.empty()) return {};
    Names taken = names_of(model);
    std::vector<OnnxNode> nodes;
    for (size_t n = 0; n < model.nodes.size(); ++n) {
      const auto condition = known.find(n);
      if (condition == known.end())
        nodes.push_back(std::move(model.nodes[n]));
      else
        LT_RETURN_IF_ERROR(put_in(model, model.nodes[n], condition->second, taken, nodes));
    }
    model.nodes = std::move(nodes);
  }
}

}  // namespace lowtide::io
