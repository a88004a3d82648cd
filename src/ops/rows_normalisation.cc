// Rows of normalisations, softmax and losses. What a statistic is taken over is coupled; the
// other axes are free. Of batch norm there are rows without a coupled axis, too: statistics that
// are sums, each part divided by the number of elements of the whole, and what is done with them
// when they are complete. Of the loss likewise: its log-sum-exp is a ReduceLogSumExp, LabelLogits
// are a sum over the classes, as each label is among those of one part, and CrossEntropyMean joins
// the two. A label that may be ignored makes the mean's divisor depend on data, and so couples the
// axes of the labels; unless an operand says what all rows divide by, which LabelCount finds. Where
// none may be, it is the number of rows: executors refuse a label that is no class.
#include <fmt/format.h>

#include <vector>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

// Whether a mean over labels divides by how many of all rows count, and no operand says how many.
bool counts_labels(const Instance& instance) {
  return has_attr(instance, "ignore_index") && !has_divisor(*find(instance.kind), instance);
}

Result<Signature> cross_entropy_axes(const Instance& instance) {
  LT_ASSIGN(
      const KnownPattern pattern,
      known_pattern(counts_labels(instance) ? "[a..@axis] [c] [b..], a.. b.., ()? -> (), a.. b.."
                                            : "a..@axis [c] b.., a.. b.., ()? -> (), a.. b.."));
  return expand(*pattern, instance, false);
}

Result<Signature> cross_entropy_grad_axes(const Instance& instance) {
  LT_ASSIGN(const KnownPattern pattern,
            known_pattern(counts_labels(instance)
                              ? "[a..@axis] c [b..], a.. b.., a.. b.., ()? -> a.. c b.."
                              : "a..@axis c b.., a.. b.., a.. b.., ()? -> a.. c b.."));
  return expand(*pattern, instance, false);
}

Result<Signature> cross_entropy_mean_axes(const Instance& instance) {
  LT_ASSIGN(const KnownPattern pattern,
            known_pattern(counts_labels(instance) ? "[a..], a.., a.., ()? -> ()"
                                                  : "a.., a.., a.., ()? -> ()"));
  return expand(*pattern, instance, false);
}

constexpr std::string_view kAlong = "a..@axis [c] b.. -> a.. [c] b..";
constexpr std::string_view kAlongTwo = "a..@axis [c] b.., a.. [c] b.. -> a.. [c] b..";

Row along_axis(std::string_view kind) {
  return {.kind = kind,
          .axes = kAlong,
          .types = "T -> T",
          .layouts = "x -> x",
          .attrs = "axis:int",
          .in_place = "0<-0",
          .flops = 5,
          .traits = {.gradient = kind}};
}

Row along_axis_gradient(std::string_view kind) {
  return {.kind = kind,
          .axes = kAlongTwo,
          .types = "T T -> T",
          .layouts = "x x -> x",
          .attrs = "axis:int",
          .in_place = "0<-0 0<-1",
          .flops = 4};
}

// What a mean is taken over: of a part the number of the whole.
Status check_count(const Instance& instance) {
  LT_ASSIGN(const int64_t count, int_attr(instance, "count"));
  if (count >= 1) return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: count is {}, not at least 1", instance.kind, count));
}

void add_batch_norm_in_passes(std::vector<Row>& rows) {
  rows.push_back({.kind = "BatchMean",
                  .axes = "n c s.. -> c",
                  .types = "T -> T",
                  .layouts = "x -> r",
                  .attrs = "count:int",
                  .adds_into = "0",
                  .flops = 1,
                  .check = check_count});
  rows.push_back({.kind = "BatchVariance",
                  .axes = "n c s.., c -> c",
                  .types = "T T -> T",
                  .layouts = "x r -> r",
                  .attrs = "count:int",
                  .adds_into = "0",
                  .flops = 3,
                  .check = check_count});
  rows.push_back({.kind = "BatchNormGradSums",
                  .axes = "n c s.., n c s.., c, c -> c, c",
                  .types = "T T T T -> T T",
                  .layouts = "x x r r -> r r",
                  .attrs = "epsilon:real",
                  .adds_into = "0 1",
                  .flops = 4});
  rows.push_back({.kind = "BatchNormGradData",
                  .axes = "n c s.., n c s.., c, c, c, c, c -> n c s..",
                  .types = "T T T T T T T -> T",
                  .layouts = "x x r r r r r -> x",
                  .attrs = "epsilon:real count:int",
                  .in_place = "0<-0 0<-1",
                  .flops = 5,
                  .check = check_count});
}

void add_batch_norm(std::vector<Row>& rows) {
  rows.push_back({.kind = "BatchNormTrain",
                  .axes = "[n] c [s..], c, c -> [n] c [s..], c, c",
                  .types = "T T T -> T T T",
                  .layouts = "x r r -> x r r",
                  .attrs = "epsilon:real",
                  .in_place = "0<-0",
                  .flops = 6,
                  .traits = {.gradient = "BatchNormTrain"}});
  rows.push_back({.kind = "BatchNormInference",
                  .axes = "n c s.., c, c, c, c -> n c s..",
                  .types = "T T T T T -> T",
                  .layouts = "x r r r r -> x",
                  .attrs = "epsilon:real",
                  .in_place = "0<-0",
                  .flops = 2,
                  .traits = {.gradient = "BatchNormInference"}});
  rows.push_back({.kind = "BatchNormGrad",
                  .axes = "[n] c [s..], n c s.., c, c, c -> [n] c [s..], c, c",
                  .types = "T T T T T -> T T T",
                  .layouts = "x x r r r -> x r r",
                  .attrs = "epsilon:real",
                  .in_place = "0<-0 0<-1",
                  .flops = 9});
  rows.push_back({.kind = "RunningUpdate",
                  .axes = "a.., a.. -> a..",
                  .types = "T T -> T",
                  .layouts = "r r -> r",
                  .attrs = "momentum:real correction:real?",
                  .updates = "0<-0",
                  .flops = 4,
                  .traits = {.recomputable = false, .has_effect = true}});
}

void add_layer_norm(std::vector<Row>& rows) {
  rows.push_back({.kind = "LayerNorm",
                  .axes = "a..@axis [c..], c.., c..? -> a.. [c..], a.., a..",
                  .types = "T T T -> T T T",
                  .layouts = "r r r -> r r r",
                  .attrs = "axis:int epsilon:real",
                  .in_place = "0<-0",
                  .flops = 8,
                  .traits = {.gradient = "LayerNorm"}});
  rows.push_back({.kind = "LayerNormGrad",
                  .axes = "a..@axis [c..], a.. [c..], c.., a.., a.. -> a.. [c..], c.., c..",
                  .types = "T T T T T -> T T T",
                  .layouts = "r r r r r -> r r r",
                  .attrs = "axis:int epsilon:real",
                  .in_place = "0<-0 0<-1",
                  .adds_into = "1 2",
                  .flops = 14});
  rows.push_back({.kind = "RmsNorm",
                  .axes = "a..@axis [c..], c.. -> a.. [c..], a..",
                  .types = "T T -> T T",
                  .layouts = "r r -> r r",
                  .attrs = "axis:int epsilon:real",
                  .in_place = "0<-0",
                  .flops = 4,
                  .traits = {.gradient = "RmsNorm"}});
  rows.push_back({.kind = "RmsNormGrad",
                  .axes = "a..@axis [c..], a.. [c..], c.., a.. -> a.. [c..], c..",
                  .types = "T T T T -> T T",
                  .layouts = "r r r r -> r r",
                  .attrs = "axis:int epsilon:real",
                  .in_place = "0<-0 0<-1",
                  .adds_into = "1",
                  .flops = 11});
}

// A norm is 1 (absolute values) or 2 (squares); a window has a channel.
Status check_norm(const Instance& instance) {
  LT_ASSIGN(const int64_t p, int_attr(instance, "p"));
  if (p == 1 || p == 2) return {};
  return error(ErrorCode::kInput, fmt::format("{}: p is {}, not 1 or 2", instance.kind, p));
}
Status check_window(const Instance& instance) {
  LT_ASSIGN(const int64_t size, int_attr(instance, "size"));
  if (size >= 1) return {};
  return error(ErrorCode::kInput, fmt::format("{}: size is {}", instance.kind, size));
}

void add_local_norms(std::vector<Row>& rows) {
  constexpr std::string_view kLrn = "size:int alpha:real beta:real bias:real";
  rows.push_back({.kind = "Lrn",
                  .axes = "n [c] s.. -> n [c] s..",
                  .types = "T -> T",
                  .layouts = "x -> x",
                  .attrs = kLrn,
                  .flops = 12,
                  .check = check_window,
                  .traits = {.gradient = "Lrn"}});
  rows.push_back({.kind = "LrnGrad",
                  .axes = "n [c] s.., n [c] s.. -> n [c] s..",
                  .types = "T T -> T",
                  .layouts = "x x -> x",
                  .attrs = kLrn,
                  .flops = 24,
                  .check = check_window});
  Row row = along_axis("LpNormalize");
  row.attrs = "axis:int p:int";
  row.flops = 3;
  row.check = check_norm;
  rows.push_back(row);
  row = along_axis_gradient("LpNormalizeGrad");
  row.attrs = "axis:int p:int";
  row.flops = 6;
  row.check = check_norm;
  rows.push_back(row);
}

// The classes of a part lie among all of them. CrossEntropyMean has no part: it has no axis.
Status check_classes(const Instance& instance) {
  LT_ASSIGN(const int64_t first, int_attr(instance, "first_class", 0));
  if (first < 0) return refuse(instance, fmt::format("first_class is {}", first));
  if (!has_attr(instance, "classes"))
    return first == 0 ? Status() : refuse(instance, "first_class without classes");
  LT_ASSIGN(const int64_t classes, int_attr(instance, "classes"));
  int64_t here = 1;
  if (has_attr(instance, "axis")) {
    LT_ASSIGN(const int64_t axis, int_attr(instance, "axis"));
    const std::vector<sym::Expr>& dims = instance.inputs[0]->dims;
    if (axis >= 0 && axis < static_cast<int64_t>(dims.size()))
      here = dims[static_cast<size_t>(axis)].constant().value_or(here);
  }
  if (classes > first && here <= classes - first) return {};
  return refuse(instance,
                fmt::format("classes is {}, for {} from first_class {} on", classes, here, first));
}

void add_losses(std::vector<Row>& rows) {
  rows.push_back({.kind = "CrossEntropy",
                  .compute = cross_entropy_axes,
                  .types = "T l l -> T T",
                  .layouts = "x r r -> r r",
                  .attrs = "axis:int ignore_index:int?",
                  .positions = "1:c",
                  .mean = true,
                  .flops = 4,
                  .traits = {.divisor = 2, .gradient = "CrossEntropy"}});
  rows.push_back({.kind = "CrossEntropyGrad",
                  .compute = cross_entropy_grad_axes,
                  .types = "T l T l -> T",
                  .layouts = "x r r r -> x",
                  .attrs = "axis:int ignore_index:int? scale:real? first_class:int? classes:int?",
                  .in_place = "0<-0",
                  .positions = "1:c",
                  .part = PartRule::kLossGradient,
                  .flops = 3,
                  .check = check_classes,
                  .traits = {.divisor = 3}});
  rows.push_back({.kind = "LabelLogits",
                  .axes = "a..@axis c b.., a.. b.. -> a.. b..",
                  .types = "T l -> T",
                  .layouts = "x r -> r",
                  .attrs = "axis:int first_class:int? classes:int?",
                  .adds_into = "0",
                  .positions = "1:c",
                  .picked = 0,
                  .part = PartRule::kClasses,
                  .check = check_classes});
  rows.push_back({.kind = "CrossEntropyMean",
                  .compute = cross_entropy_mean_axes,
                  .types = "T T l l -> T",
                  .layouts = "r r r r -> r",
                  .attrs = "ignore_index:int? classes:int",
                  .positions = "2:classes",
                  .mean = true,
                  .flops = 2,
                  .check = check_classes,
                  .traits = {.divisor = 3}});
  // Of few bytes, and wanted by all parts of the rows before the first: never cut itself.
  rows.push_back({.kind = "LabelCount",
                  .axes = "[a..] -> ()",
                  .types = "l -> l",
                  .layouts = "r -> r",
                  .attrs = "ignore_index:int? classes:int",
                  .positions = "0:classes",
                  .flops = 1,
                  .check = check_classes});
}

void add_mean_squared_error(std::vector<Row>& rows) {
  rows.push_back({.kind = "MseLoss",
                  .axes = "a.., a.. -> ()",
                  .types = "T T -> T",
                  .layouts = "x x -> r",
                  .mean = true,
                  .flops = 3,
                  .traits = {.gradient = "MseLoss"}});
  rows.push_back({.kind = "MseLossGrad",
                  .axes = "a.., a.. -> a..",
                  .types = "T T -> T",
                  .layouts = "x x -> x",
                  .attrs = "scale:real?",
                  .in_place = "0<-0",
                  .part = PartRule::kMeanGradient,
                  .flops = 2});
}

}  // namespace

std::span<const Row> normalisation_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_batch_norm(made);
    add_batch_norm_in_passes(made);
    add_layer_norm(made);
    for (std::string_view kind : {"Softmax", "LogSoftmax"}) made.push_back(along_axis(kind));
    for (std::string_view kind : {"SoftmaxGrad", "LogSoftmaxGrad"})
      made.push_back(along_axis_gradient(kind));
    add_local_norms(made);
    add_losses(made);
    add_mean_squared_error(made);
    return made;
  }();
  return rows;
}

}  // namespace lowtide::ops
