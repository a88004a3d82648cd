// Expansion runs over an explicit stack of node lists, so a file cannot exhaust the machine's
// stack: the top frame's next node is either passed on (after renaming) or, when it calls a
// function, opens a new frame. A function that calls itself shows as a stack deeper than kMaxDepth.
// Each frame carries a map from the function's value names to names of the whole model; a name that
// is neither a formal input nor output is inner and gets the call's prefix.
#include "io/onnx_functions.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace lowtide::io {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxNodes = size_t{1} << 20;

using Key = std::tuple<std::string, std::string, std::string>;
using Functions = std::map<Key, const OnnxFunction*>;

struct Frame {
  const std::vector<OnnxNode>* nodes = nullptr;
  size_t next = 0;
  // Formal and inner names to names of the model.
  std::map<std::string, std::string, std::less<>> names;
  std::map<std::string, OnnxAttr, std::less<>> attrs;  // the call's attributes, defaults filled in
  std::string prefix;                                  // empty: the main graph, whose names stand
  std::string module, source;  // of the call: inner nodes that say nothing belong there
};

std::string renamed(Frame& frame, const std::string& name) {
  if (name.empty() || frame.prefix.empty()) return name;
  const auto found = frame.names.find(name);
  if (found != frame.names.end()) return found->second;
  return frame.names.emplace(name, frame.prefix + "/" + name).first->second;
}

// The attributes of a node in a frame: those of the call in place of references to them.
void resolve_attributes(const Frame& frame, OnnxNode& node) {
  for (auto attr = node.attrs.begin(); attr != node.attrs.end();) {
    if (attr->second.reference.empty()) {
      ++attr;
    } else if (const auto given = frame.attrs.find(attr->second.reference);
               given != frame.attrs.end()) {
      attr->second = given->second;
      ++attr;
    } else {
      attr = node.attrs.erase(attr);
    }
  }
}

// Names in subgraphs are inner names of the function, too: all of its names are different.
void instantiate_subgraphs(Frame& frame, OnnxNode& node) {
  std::vector<OnnxSubgraph*> todo;
  const auto push = [&todo](OnnxNode& holder) {
    for (auto& [name, attr] : holder.attrs)
      for (OnnxSubgraph& graph : attr.subgraph) todo.push_back(&graph);
  };
  push(node);
  while (!todo.empty()) {
    OnnxSubgraph& graph = *todo.back();
    todo.pop_back();
    for (OnnxTensor& tensor : graph.initializers) tensor.name = renamed(frame, tensor.name);
    for (std::vector<std::string>* names : {&graph.inputs, &graph.outputs})
      for (std::string& name : *names) name = renamed(frame, name);
    for (OnnxNode& inner : graph.nodes) {
      for (std::string& name : inner.inputs) name = renamed(frame, name);
      for (std::string& name : inner.outputs) name = renamed(frame, name);
      resolve_attributes(frame, inner);
      push(inner);
    }
  }
}

// A node of a frame in terms of the whole model.
OnnxNode instantiate(Frame& frame, const OnnxNode& node) {
  OnnxNode copy = node;
  if (frame.prefix.empty()) return copy;
  copy.name = frame.prefix + "/" + (node.name.empty() ? node.op_type : node.name);
  if (copy.module.empty()) copy.module = frame.module;
  if (copy.source.empty()) copy.source = frame.source;
  for (std::string& name : copy.inputs) name = renamed(frame, name);
  for (std::string& name : copy.outputs) name = renamed(frame, name);
  instantiate_subgraphs(frame, copy);
  resolve_attributes(frame, copy);
  return copy;
}

Result<Frame> open_call(const OnnxModel& model, const OnnxNode& call,
                        const OnnxFunction& function) {
  if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
    return error(ErrorCode::kInput,
                 fmt::format("{}: {} gives {} inputs and {} outputs, the function has {} and {}",
                             model.origin, describe(call), call.inputs.size(), call.outputs.size(),
                             function.inputs.size(), function.outputs.size()));
  Frame frame;
  frame.nodes = &function.nodes;
  frame.prefix = !call.name.empty() ? call.name : call.op_type;
  for (const std::string& output : call.outputs)
    if (call.name.empty() && !output.empty()) frame.prefix = output + "/" + call.op_type;
  frame.module = call.module;
  frame.source = call.source;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    frame.names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].empty()) frame.names[function.outputs[i]] = call.outputs[i];
  frame.attrs = function.defaults;
  for (const auto& [name, attr] : call.attrs) frame.attrs[name] = attr;
  return frame;
}

Result<Functions> index_functions(const OnnxModel& model) {
  Functions functions;
  for (const OnnxFunction& function : model.functions) {
    const Key key(function.domain == "ai.onnx" ? "" : function.domain, function.name,
                  function.overload);
    if (!functions.emplace(key, &function).second)
      return error(ErrorCode::kInput,
                   fmt::format("{}: function '{}' of domain '{}' is defined twice", model.origin,
                               function.name, function.domain));
  }
  return functions;
}

}  // namespace

Status expand_functions(OnnxModel& model) {
  if (model.functions.empty()) return {};
  LT_ASSIGN(const Functions functions, index_functions(model));
  std::vector<OnnxNode> expanded;
  std::vector<Frame> stack(1);
  stack.back().nodes = &model.nodes;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next == frame.nodes->size()) {
      stack.pop_back();
      continue;
    }
    OnnxNode node = instantiate(frame, (*frame.nodes)[frame.next++]);
    const auto found = functions.find(Key(node.domain, node.op_type, node.overload));
    if (found == functions.end()) {
      if (expanded.size() == kMaxNodes)
        return error(ErrorCode::kInput, fmt::format("{}: functions expand to more than {} nodes",
                                                    model.origin, kMaxNodes));
      expanded.push_back(std::move(node));
      continue;
    }
    if (stack.size() > kMaxDepth)
      return error(
          ErrorCode::kInput,
          fmt::format("{}: {}: function calls nest deeper than {} (a function calls itself?)",
                      model.origin, describe(node), kMaxDepth));
    LT_ASSIGN(Frame call, open_call(model, node, *found->second));
    stack.push_back(std::move(call));
  }
  model.nodes = std::move(expanded);
  return {};
}

}  // namespace lowtide::io
