#include "autodiff/optimizer.h"

#include <string>
#include <vector>

#include "ops/op_table.h"

namespace lowtide::autodiff {
namespace {

// A state for a parameter.
ir::ValueId add_state(ir::Graph& graph, std::string_view prefix, ir::ValueId parameter) {
  const ir::Value& like = graph.value(parameter);
  ir::Value state;
  state.name = graph.fresh_name(std::string(prefix) + "/" + like.name);
  state.dtype = state_type(like.dtype);
  state.dims = like.dims;
  state.layout = like.layout;
  state.category = Category::kOptimizerState;
  state.initial.kind = ir::InitialValue::Kind::kZero;
  return graph.add_value(std::move(state));
}

Status append_update(ir::Graph& graph, const TrainedParameter& trained,
                     const OptimizerOptions& options) {
  const std::string name = graph.value(trained.parameter).name;
  std::vector<ir::ValueId> inputs = {trained.parameter, trained.gradient};
  ir::Attrs attrs = {{"learning_rate", options.learning_rate},
                     {"weight_decay", options.weight_decay}};
  if (options.kind == OptimizerKind::kAdamW) {
    for (const char* state : {"adam_m", "adam_v"})
      inputs.push_back(add_state(graph, state, trained.parameter));
    attrs.insert(
        {{"beta1", options.beta1}, {"beta2", options.beta2}, {"epsilon", options.epsilon}});
  } else {
    attrs.emplace("momentum", options.momentum);
    if (options.momentum != 0)
      inputs.push_back(add_state(graph, "sgd_momentum", trained.parameter));
  }
  ops::AppendOptions append;
  append.name = "update/" + name;
  append.phase = Phase::kUpdate;
  append.category = Category::kTemporary;
  for (const ir::ValueId input : inputs)
    if (input != trained.gradient) append.output_names.push_back("new/" + graph.value(input).name);
  const bool adam = options.kind == OptimizerKind::kAdamW;
  auto op = ops::append(graph, adam ? "AdamWUpdate" : "SgdUpdate", std::move(inputs),
                        std::move(attrs), append);
  if (!op) return tl::unexpected<Error>(op.error());
  return {};
}

}  // namespace

Status append_updates(ir::Graph& graph, std::span<const TrainedParameter> parameters,
                      const OptimizerOptions& options) {
  for (const TrainedParameter& trained : parameters)
    LT_RETURN_IF_ERROR(append_update(graph, trained, options));
  return {};
}

}  // namespace lowtide::autodiff
