// Kahn's algorithm with the file's index as priority: linear but for the queue, and the identity on
// files that are sorted.
#include "io/onnx_order.h"

#include <fmt/format.h>

#include <map>
#include <queue>
#include <set>

#include "io/onnx_branches.h"

namespace lowtide::io {
namespace {

using Makers = std::map<std::string, int, std::less<>>;  // value to node, -1: there from the start

Result<Makers> find_makers(const OnnxModel& model) {
  Makers makers;
  for (const OnnxValueInfo& input : model.inputs)
    if (!makers.emplace(input.name, -1).second)
      return error(ErrorCode::kInput,
                   fmt::format("{}: two inputs are called '{}'", model.origin, input.name));
  std::set<std::string, std::less<>> initializers;
  for (const OnnxTensor& tensor : model.initializers) {
    if (!initializers.insert(tensor.name).second)
      return error(ErrorCode::kInput,
                   fmt::format("{}: two initializers are called '{}'", model.origin, tensor.name));
    makers.emplace(tensor.name, -1);  // an initializer may be declared as an input too
  }
  for (size_t n = 0; n < model.nodes.size(); ++n)
    for (const std::string& output : model.nodes[n].outputs)
      if (!output.empty() && !makers.emplace(output, static_cast<int>(n)).second)
        return error(ErrorCode::kInput,
                     fmt::format("{}: {} makes '{}', which exists already", model.origin,
                                 describe(model.nodes[n]), output));
  return makers;
}

Error cycle_error(const OnnxModel& model, const std::vector<int>& missing) {
  std::string names;
  int shown = 0;
  for (size_t n = 0; n < missing.size() && shown < 4; ++n)
    if (missing[n] > 0) names += fmt::format("{}{}", shown++ ? ", " : "", describe(model.nodes[n]));
  return {ErrorCode::kInput,
          fmt::format("{}: nodes on or behind a cycle: {}", model.origin, names)};
}

}  // namespace

Status order_nodes(OnnxModel& model) {
  LT_ASSIGN(const Makers makers, find_makers(model));
  const size_t count = model.nodes.size();
  std::vector<int> missing(count, 0);
  std::vector<std::vector<int>> readers(count);
  for (size_t n = 0; n < count; ++n) {
    const std::set<std::string> captured = captured_names(model.nodes[n]);
    std::vector<std::string> inputs = model.nodes[n].inputs;
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    for (const std::string& input : inputs) {
      if (input.empty()) continue;
      const auto maker = makers.find(input);
      if (maker == makers.end())
        return error(ErrorCode::kInput, fmt::format("{}: {} reads '{}', which nothing makes",
                                                    model.origin, describe(model.nodes[n]), input));
      if (maker->second < 0) continue;
      readers[static_cast<size_t>(maker->second)].push_back(static_cast<int>(n));
      ++missing[n];
    }
  }
  for (const OnnxValueInfo& output : model.outputs)
    if (!makers.contains(output.name))
      return error(ErrorCode::kInput,
                   fmt::format("{}: output '{}' is made by no node", model.origin, output.name));

  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t n = 0; n < count; ++n)
    if (missing[n] == 0) ready.push(static_cast<int>(n));
  std::vector<OnnxNode> ordered;
  ordered.reserve(count);
  while (!ready.empty()) {
    const size_t n = static_cast<size_t>(ready.top());
    ready.pop();
    ordered.push_back(model.nodes[n]);
    for (int reader : readers[n])
      if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
  if (ordered.size() != count) return tl::unexpected<Error>(cycle_error(model, missing));
  model.nodes = std::move(ordered);
  return {};
}

}  // namespace lowtide::io
