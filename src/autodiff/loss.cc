#include "autodiff/loss.h"

#include <fmt/core.h>

#include <algorithm>

#include "ops/op_table.h"
#include "ops/signature.h"

namespace lowtide::autodiff {
namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

// Results of the model in the model's order; the new contents of running statistics are not among
// them.
std::vector<ir::ValueId> model_outputs(const ir::Graph& graph) {
  std::vector<ir::ValueId> outputs;
  for (const ir::ValueId id : graph.outputs())
    if (graph.value(id).alias != ir::Alias::kUpdate) outputs.push_back(id);
  return outputs;
}

Result<ir::ValueId> chosen_output(const ir::Graph& graph, const LossOptions& options) {
  const std::vector<ir::ValueId> outputs = model_outputs(graph);
  if (options.output.empty()) {
    if (outputs.empty()) return bad(fmt::format("the model '{}' has no output", graph.name));
    // What is there before the step (an input that is also an output) is nobody's loss, and whole
    // numbers (the label that a classifier chose) are none.
    const auto computed = std::find_if(outputs.begin(), outputs.end(), [&](ir::ValueId id) {
      return graph.value(id).producer.valid() && is_float(graph.value(id).dtype);
    });
    return computed == outputs.end() ? outputs.front() : *computed;
  }
  std::string names;
  for (const ir::ValueId id : outputs) {
    const std::string& name = graph.value(id).name;
    if (name == options.output) return id;
    names += (names.empty() ? "" : ", ") + name;
  }
  return bad(
      fmt::format("the model '{}' has no output '{}', but {}", graph.name, options.output, names));
}

// The step's loss and what is fed to it are found by their names, so these must be free.
Status check_names(const ir::Graph& graph, std::string_view fed) {
  for (const std::string_view name : {std::string_view("loss"), fed})
    if (graph.find_value(name))
      return error(
          ErrorCode::kUsage,
          fmt::format(
              "the model '{}' has a value named '{}', which is the name of the attached {}: "
              "rename it in the model, or take the model's own loss (--loss model)",
              graph.name, name, name == "loss" ? "loss" : "loss's input"));
  return {};
}

ir::ValueId add_input(ir::Graph& graph, std::string_view name, DType dtype, ir::Dims dims) {
  ir::Value value;
  value.name = name;
  value.dtype = dtype;
  value.dims = std::move(dims);
  value.category = Category::kInput;
  return graph.add_value(std::move(value));
}

Result<ir::ValueId> append_loss(ir::Graph& graph, std::string_view kind,
                                std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
  ops::AppendOptions append;
  append.name = "loss";
  append.module = "loss";
  append.output_names = {"loss", "loss.log_sum_exp"};
  LT_ASSIGN(const ir::OpId op,
            ops::append(graph, kind, std::move(inputs), std::move(attrs), append));
  return graph.op(op).outputs[0];
}

Result<ir::ValueId> cross_entropy(ir::Graph& graph, ir::ValueId logits,
                                  const LossOptions& options) {
  ir::Dims dims = graph.value(logits).dims;
  const auto rank = static_cast<int64_t>(dims.size());
  const std::string& name = graph.value(logits).name;
  if (rank < 1) return bad(fmt::format("the output '{}' is a scalar; it has no classes", name));
  int64_t axis = options.class_axis.value_or(rank == 3 || rank == 1 ? rank - 1 : 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return bad(
        fmt::format("the class axis {} is not one of the {} dimensions of '{}'", axis, rank, name));
  dims.erase(dims.begin() + axis);
  ir::Attrs attrs = {{"axis", axis}};
  if (options.ignore_index) attrs.emplace("ignore_index", *options.ignore_index);
  const ir::ValueId labels = add_input(graph, "labels", DType::kI64, std::move(dims));
  return append_loss(graph, "CrossEntropy", {logits, labels}, std::move(attrs));
}

// The model's own loss, under the name by which losses are found.
Result<ir::ValueId> own_loss(ir::Graph& graph, ir::ValueId output) {
  const ir::Value value = graph.value(output);
  const bool one = std::all_of(value.dims.begin(), value.dims.end(),
                               [](const sym::Expr& dim) { return dim == sym::Expr(1); });
  if (!one)
    return bad(fmt::format("the output '{}' has dims {}; the model's own loss is one number",
                           value.name, ops::print(value.dims)));
  if (value.name == "loss" && value.dims.empty()) return output;
  if (graph.find_value("loss"))
    return bad(
        fmt::format("the model '{}' has a value named 'loss' beside its output '{}': if it is "
                    "the loss, choose it (--loss-output loss), else rename it in the model",
                    graph.name, value.name));
  if (value.dims.empty()) return append_loss(graph, "Copy", {output}, {});
  return append_loss(graph, "Reshape", {output}, {{"shape", std::vector<sym::Expr>{}}});
}

}  // namespace

std::string_view name(LossKind kind) {
  constexpr std::string_view kNames[] = {"cross-entropy", "mse", "model"};
  return kNames[static_cast<size_t>(kind)];
}

Result<ir::ValueId> attach_loss(ir::Graph& graph, const LossOptions& options) {
  LT_ASSIGN(const ir::ValueId output, chosen_output(graph, options));
  const ir::Value value = graph.value(output);
  if (!is_float(value.dtype))
    return bad(
        fmt::format("the output '{}' is {}; a loss wants floats", value.name, name(value.dtype)));
  ir::ValueId loss = output;
  switch (options.kind) {
    case LossKind::kCrossEntropy: {
      LT_RETURN_IF_ERROR(check_names(graph, "labels"));
      LT_ASSIGN(loss, cross_entropy(graph, output, options));
      break;
    }
    case LossKind::kMeanSquaredError: {
      LT_RETURN_IF_ERROR(check_names(graph, "target"));
      const ir::ValueId target = add_input(graph, "target", value.dtype, value.dims);
      LT_ASSIGN(loss, append_loss(graph, "MseLoss", {output, target}, {}));
      break;
    }
    case LossKind::kModelOutput: {
      LT_ASSIGN(loss, own_loss(graph, output));
      break;
    }
  }
  if (!options.keep_outputs)
    for (const ir::ValueId id : model_outputs(graph)) graph.set_output(id, false);
  graph.set_output(loss, true);
  return loss;
}

}  // namespace lowtide::autodiff
