#include "autodiff/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ops/keep_overwritten.h"

namespace lowtide::autodiff {
namespace {

// A running statistic: the forward pass itself gives it new contents.
bool follows_the_batch(const ir::Graph& graph, ir::ValueId id) {
  const auto members = graph.values_in(graph.value(id).storage);
  return std::any_of(members.begin(), members.end(), [&](ir::ValueId member) {
    return graph.value(member).alias == ir::Alias::kUpdate;
  });
}

std::vector<ir::ValueId> trainable(const ir::Graph& graph, const TrainingOptions& options) {
  std::vector<ir::ValueId> parameters;
  for (const ir::ValueId id : graph.values()) {
    const ir::Value& value = graph.value(id);
    if (value.producer.valid() || value.category != Category::kParameter ||
        !is_float(value.dtype) || follows_the_batch(graph, id))
      continue;
    if (std::count(options.frozen.begin(), options.frozen.end(), value.name) == 0)
      parameters.push_back(id);
  }
  return parameters;
}

Status check_frozen(const ir::Graph& graph, const TrainingOptions& options) {
  for (const std::string& name : options.frozen)
    if (!graph.find_value(name))
      return error(ErrorCode::kInput, fmt::format("there is no parameter '{}' to freeze", name));
  return {};
}

}  // namespace

Result<ir::Graph> make_training_graph(const ir::Graph& forward, const TrainingOptions& options) {
  LT_RETURN_IF_ERROR(check_frozen(forward, options));
  ir::Graph graph = forward;
  const std::vector<ir::ValueId> parameters = trainable(graph, options);
  LT_ASSIGN(const ir::ValueId loss, attach_loss(graph, options.loss));
  LT_ASSIGN(const std::vector<ir::ValueId> gradients,
            append_gradients(graph, loss, parameters, options.gradient));
  std::vector<TrainedParameter> trained;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].valid()) trained.push_back({parameters[i], gradients[i]});
  if (trained.empty())
    return error(ErrorCode::kInput,
                 fmt::format("the loss of '{}' depends on no parameter", graph.name));
  if (options.update) {
    LT_RETURN_IF_ERROR(append_updates(graph, trained, options.optimizer));
  } else {
    for (const TrainedParameter& t : trained) graph.set_output(t.gradient, true);
  }
  LT_ASSIGN(graph, ops::keep_overwritten(std::move(graph)));
  LT_RETURN_IF_ERROR(ir::check(graph));
  return graph;
}

}  // namespace lowtide::autodiff
