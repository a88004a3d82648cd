// Losses on class labels: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//
// The plain mean over softmax scores is one op of the table (CrossEntropy), which keeps no
// probabilities. Everything else is written out: log-probabilities, the one of each label taken
// (GatherElements), times minus the weight of its class, and reduced. A label that is ignored is
// read as class 0 and given weight 0, so that no index leaves the table and nothing flows back.
// Labels that are neither classes nor ignored are refused by CrossEntropy alone: written out, they
// are indices like others, where negative ones count from the end, and what lies outside reads 0.
// ONNX's mean divides by the sum of the weights, as PyTorch's does.
#include <fmt/format.h>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

Result<ValueId> labels_of(NodeCall& call) {
  LT_ASSIGN(const ValueId labels, call.value(1));
  if (call.of(labels).dtype == DType::kI64) return labels;
  return call.emit("Cast", {labels}, {{"to", word("i64")}});
}

// The labels, the weight of each (none: all 1).
struct Weighted {
  ValueId labels;
  ValueId weights;
};

Result<Weighted> weigh(NodeCall& call, DType dtype) {
  Weighted result;
  LT_ASSIGN(result.labels, labels_of(call));
  ValueId ignored, zero;
  const bool ignores = has_attr(call.node(), "ignore_index");
  if (ignores) {
    const auto label = static_cast<double>(int_attr(call.node(), "ignore_index", 0));
    LT_ASSIGN(const ValueId index, call.inline_number(label, DType::kI64, "ignored"));
    LT_ASSIGN(const ValueId first, call.inline_number(0, DType::kI64, "class_0"));
    LT_ASSIGN(zero, call.inline_number(0, dtype, "no_weight"));
    LT_ASSIGN(ignored, call.emit("Equal", {result.labels, index}));
    LT_ASSIGN(result.labels, call.emit("Where", {ignored, first, result.labels}));
  }
  if (call.has(2)) {
    LT_ASSIGN(const ValueId table, call.value(2));
    LT_ASSIGN(result.weights, call.emit("Gather", {table, result.labels}, {{"axis", int64_t{0}}}));
  }
  if (!ignores) return result;
  if (!result.weights.valid()) {
    LT_ASSIGN(result.weights, call.inline_number(1, dtype, "weight"));
  }
  LT_ASSIGN(result.weights, call.emit("Where", {ignored, zero, result.weights}));
  return result;
}

// The log-probability of each label: [n, classes, ...] -> [n, ...].
Result<ValueId> taken(NodeCall& call, ValueId log_probabilities, ValueId labels) {
  const ir::Dims dims = call.of(labels).dims;
  std::vector<Expr> one_class(dims.begin(), dims.end());
  one_class.insert(one_class.begin() + 1, Expr(1));
  LT_ASSIGN(const ValueId index,
            call.emit("Reshape", {labels}, {{"shape", list(std::move(one_class))}}));
  LT_ASSIGN(const ValueId picked,
            call.emit("GatherElements", {log_probabilities, index}, {{"axis", int64_t{1}}}));
  return call.emit("Reshape", {picked}, {{"shape", list(dims)}});
}

ir::Attrs all_axes(size_t rank) {
  std::vector<int64_t> axes(rank);
  for (size_t d = 0; d < rank; ++d) axes[d] = static_cast<int64_t>(d);
  return {{"axes", list(axes)}, {"keepdims", int64_t{0}}};
}

// -weight * log-probability of each label, reduced as the node says.
Status negative_log_likelihood(NodeCall& call, ValueId log_probabilities) {
  const std::string reduction = word_attr(call.node(), "reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    return error(ErrorCode::kInput,
                 fmt::format("reduction is '{}'; it must be none, mean or sum", reduction));
  if (call.of(log_probabilities).dims.size() < 2)
    return error(ErrorCode::kInput, fmt::format("an input of rank {}; it must be at least 2",
                                                call.of(log_probabilities).dims.size()));
  LT_ASSIGN(const Weighted weighted, weigh(call, call.of(log_probabilities).dtype));
  LT_ASSIGN(const ValueId picked, taken(call, log_probabilities, weighted.labels));
  const bool whole = reduction == "none";
  const ir::Attrs axes = all_axes(call.of(picked).dims.size());
  if (!weighted.weights.valid()) {
    if (whole) return call.result("Neg", {picked});
    LT_ASSIGN(const ValueId loss, call.emit("Neg", {picked}));
    return call.result(reduction == "mean" ? "ReduceMean" : "ReduceSum", {loss}, axes);
  }
  LT_ASSIGN(const ValueId share, call.emit("Mul", {weighted.weights, picked}));
  if (whole) return call.result("Neg", {share});
  LT_ASSIGN(ValueId loss, call.emit("Neg", {share}));
  if (reduction == "sum") return call.result("ReduceSum", {loss}, axes);
  LT_ASSIGN(loss, call.wide(loss));
  LT_ASSIGN(const ValueId weights, call.wide(weighted.weights));
  LT_ASSIGN(const ValueId total, call.emit("ReduceSum", {loss}, axes));
  LT_ASSIGN(const ValueId weight, call.emit("ReduceSum", {weights}, axes));
  return call.result_as(call.dtype(0), "Div", {total, weight});
}

Status likelihood(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  return negative_log_likelihood(call, x);
}

Status cross_entropy(NodeCall& call) {
  const bool plain = !call.has(2) && word_attr(call.node(), "reduction", "mean") == "mean";
  if (plain && !call.wants(1)) {
    LT_ASSIGN(const ValueId scores, call.value(0));
    LT_ASSIGN(const ValueId labels, labels_of(call));
    ir::Attrs attrs = {{"axis", int64_t{1}}};
    if (has_attr(call.node(), "ignore_index"))
      attrs["ignore_index"] = int_attr(call.node(), "ignore_index", 0);
    return call.result("CrossEntropy", {scores, labels}, std::move(attrs));
  }
  LT_ASSIGN(const ValueId scores, call.value(0));
  const ir::Attrs axis = {{"axis", int64_t{1}}};
  if (!call.wants(1)) {
    LT_ASSIGN(const ValueId made, call.emit("LogSoftmax", {scores}, axis));
    return negative_log_likelihood(call, made);
  }
  LT_ASSIGN(const ValueId made, call.result_at(1, "LogSoftmax", {scores}, axis));
  return negative_log_likelihood(call, made);
}

constexpr ConvertRow kLossRows[] = {
    {"NegativeLogLikelihoodLoss", 2, likelihood},
    {"SoftmaxCrossEntropyLoss", 2, cross_entropy},
};

}  // namespace

std::span<const ConvertRow> loss_conversions() {
  return kLossRows;
}

}  // namespace lowtide::io
