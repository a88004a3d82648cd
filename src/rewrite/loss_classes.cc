#include "rewrite/loss_classes.h"

#include <optional>
#include <utility>
#include <variant>

#include "rewrite/taken_apart.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

// Nothing where there is nothing to cut.
std::optional<int64_t> classes_of(const ir::Graph& graph, const ir::Op& loss) {
  const auto axis = static_cast<size_t>(std::get<int64_t>(loss.attrs.at("axis")));
  const auto classes = graph.value(loss.inputs[0]).dims[axis].constant();
  return classes && *classes > 0 ? classes : std::nullopt;
}

Status take_apart(const ir::Graph& old, OpId id, int64_t classes, TakenApart& made) {
  const ir::Op& op = old.op(id);
  const int64_t axis = std::get<int64_t>(op.attrs.at("axis"));
  const ValueId logits = made.now(op.inputs[0]), labels = made.now(op.inputs[1]);
  const ValueId loss = op.outputs[0], log_sum_exp = op.outputs[1];
  LT_RETURN_IF_ERROR(made.add(id, "/log_sum_exp", "ReduceLogSumExp", {logits},
                              {{"axes", ir::Dims{axis}}, {"keepdims", int64_t{0}}}, {log_sum_exp}));
  LT_RETURN_IF_ERROR(
      made.add(id, "/label_logits", "LabelLogits", {logits, labels}, {{"axis", axis}}, {}));
  ir::Attrs attrs = {{"classes", classes}};
  if (const auto ignored = op.attrs.find("ignore_index"); ignored != op.attrs.end())
    attrs.insert(*ignored);
  std::vector<ValueId> operands = {made.now(log_sum_exp), made.last(), labels};
  if (op.inputs.size() > 2) operands.push_back(made.now(op.inputs[2]));  // how many labels count
  return made.add(id, "", "CrossEntropyMean", std::move(operands), std::move(attrs), {loss});
}

}  // namespace

Result<LossClassesReport> loss_by_classes(const ir::Graph& graph) {
  TakenApart made(graph);
  LossClassesReport report;
  for (OpId id : graph.ops()) {
    const ir::Op& op = graph.op(id);
    const auto classes = op.kind == "CrossEntropy" ? classes_of(graph, op) : std::nullopt;
    if (!classes) {
      LT_RETURN_IF_ERROR(made.keep(id));
      continue;
    }
    LT_RETURN_IF_ERROR(take_apart(graph, id, *classes, made));
    ++report.ops;
  }
  LT_ASSIGN(report.graph, std::move(made).graph());
  return report;
}

}  // namespace lowtide::rewrite
