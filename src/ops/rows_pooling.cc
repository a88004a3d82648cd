// Rows of pooling, reductions and updates. The taps of a pooling window are coupled: a maximum
// comes with its position, a mean with its divisor. A pooling gradient scatters: its parts have
// rows of their own, or their results overlap and add up (own_rows.h).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

// The two sides of a reduction of input `whole`: "a0 r1 a2" and "a0 a2", with 1 in the place of a
// reduced dimension when keepdims is set.
struct ReducedAxes {
  std::string in, out;
};
Result<ReducedAxes> reduced_axes(const Instance& instance, size_t whole, bool coupled) {
  if (instance.inputs.size() <= whole || !instance.inputs[whole])
    return error(ErrorCode::kInput, fmt::format("{}: input {} is missing", instance.kind, whole));
  const size_t rank = instance.inputs[whole]->dims.size();
  LT_ASSIGN(const int64_t keep, int_attr(instance, "keepdims", 0));
  std::vector<bool> reduced(rank, false);
  const ir::AttrValue& value = instance.attrs->find("axes")->second;
  for (const sym::Expr& axis : std::get<ir::Dims>(value)) {
    const auto number = axis.constant();
    if (!number || *number < 0 || *number >= static_cast<int64_t>(rank))
      return error(ErrorCode::kInput, fmt::format("{}: axis {} is outside of rank {}",
                                                  instance.kind, sym::print(axis), rank));
    if (reduced[static_cast<size_t>(*number)])
      return error(ErrorCode::kInput,
                   fmt::format("{}: axis {} is given twice", instance.kind, *number));
    reduced[static_cast<size_t>(*number)] = true;
  }
  ReducedAxes axes;
  for (size_t d = 0; d < rank; ++d) {
    const std::string axis = fmt::format("{}{}", reduced[d] ? "r" : "a", d);
    axes.in += reduced[d] && coupled ? fmt::format("[{}] ", axis) : axis + " ";
    if (!reduced[d]) axes.out += axis + " ";
    if (reduced[d] && keep != 0) axes.out += "1 ";
  }
  for (std::string* side : {&axes.in, &axes.out})
    if (side->empty()) *side = "() ";
  return axes;
}

Result<Signature> merged_axes(const Instance& instance) {
  LT_ASSIGN(const ReducedAxes axes, reduced_axes(instance, 0, false));
  LT_ASSIGN(const KnownPattern pattern, known_pattern(axes.in + "-> " + axes.out));
  return expand(*pattern, instance, false);
}

// From dy and x: each element's gradient takes all other elements that it was multiplied with.
Result<Signature> product_gradient_axes(const Instance& instance) {
  LT_ASSIGN(const ReducedAxes axes, reduced_axes(instance, 1, true));
  LT_ASSIGN(const KnownPattern pattern, known_pattern(axes.out + ", " + axes.in + "-> " + axes.in));
  return expand(*pattern, instance, false);
}

Row reduction(std::string_view kind, std::string_view types, Merge merge, bool mean) {
  return {.kind = kind,
          .compute = merged_axes,
          .types = types,
          .layouts = "x -> r",
          .attrs = "axes:list keepdims:int?",
          .mean = mean,
          .merge = merge,
          .flops = 1,
          .traits = {.gradient = kind}};
}

// The index of the maximum is a byte.
Status check_kernel_volume(const Instance& instance) {
  int64_t volume = 1;
  for (const sym::Expr& taps : std::get<ir::Dims>(instance.attrs->find("kernel")->second)) {
    const auto number = taps.constant();
    if (!number || *number < 1 || *number > 256)
      return error(ErrorCode::kInput, fmt::format("{}: kernel {} is not in 1 to 256", instance.kind,
                                                  sym::print(taps)));
    volume = std::min<int64_t>(volume * *number, 1 << 20);
  }
  if (volume <= 256) return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: a kernel of {} taps is larger than 256", instance.kind, volume));
}

// Whether every position is divided by the same number, whatever of its window is padding.
bool divides_alike(const Instance& instance) {
  const auto includes = int_attr(instance, "count_include_pad", 0);
  const auto ceil_mode = int_attr(instance, "ceil_mode", 0);
  return has_attr(instance, "divisor") ||
         (includes && *includes != 0 && ceil_mode && *ceil_mode == 0);
}

void add_pooling(std::vector<Row>& rows) {
  rows.push_back({.kind = "MaxPool",
                  .axes = "n c (o*strides+[r:kernel]*dilations-pads).. -> n c o.., n c o..",
                  .types = "N -> N u",
                  .layouts = "x -> x x",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list? ceil_mode:int?",
                  .flops = 1,
                  .check = check_kernel_volume,
                  .traits = {.gradient = "MaxPool"}});
  rows.push_back({.kind = "MaxPoolGrad",
                  .axes = "n c o.., n c o.. -> "
                          "n c (o*strides+[r:kernel]*dilations-pads)..:input_spatial",
                  .types = "T u -> T",
                  .layouts = "x x -> x",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list? ceil_mode:int? "
                           "input_spatial:list",
                  .adds_into = "0",
                  .cuts_off = [](const Instance&) { return true; },
                  .flops = 1,
                  .check = check_kernel_volume});
  rows.push_back({.kind = "MaxPoolPositions",
                  .axes = "[n] [c] [o..] -> [n] [c] [o..]",
                  .types = "u -> l",
                  .layouts = "x -> x",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list? "
                           "input_spatial:list columns_first:int?",
                  .flops = 1,
                  .check = check_kernel_volume});
  rows.push_back({.kind = "AvgPool",
                  .axes = "n c (o*strides+[r:kernel]*dilations-pads).. -> n c o..",
                  .types = "T -> T",
                  .layouts = "x -> x",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list? ceil_mode:int? "
                           "count_include_pad:int? divisor:int?",
                  .flops = 1,
                  .traits = {.gradient = "AvgPool"}});
  rows.push_back({.kind = "AvgPoolGrad",
                  .axes = "n c o.. -> "
                          "n c (o*strides+[r:kernel]*dilations-pads)..:input_spatial",
                  .types = "T -> T",
                  .layouts = "x -> x",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list? ceil_mode:int? "
                           "count_include_pad:int? divisor:int? input_spatial:list",
                  .adds_into = "0",
                  .cuts_off = divides_alike,
                  .flops = 1});
}

// Blocks of a window and the image that they make; the taps of a block are coupled as above.
void add_columns(std::vector<Row>& rows) {
  rows.push_back({.kind = "Col2Im",
                  .axes = "n c [r..@spatial] o.. -> n c "
                          "(o*strides+[r]*dilations-pads)..:output_spatial",
                  .types = "T -> T",
                  .layouts = "r -> r",
                  .attrs = "spatial:int output_spatial:list strides:list? pads:list? "
                           "dilations:list?",
                  .adds_into = "0",
                  .cuts_off = [](const Instance&) { return true; },
                  .flops = 1,
                  .traits = {.gradient = "Col2Im"}});
  rows.push_back({.kind = "Col2ImGrad",
                  .axes = "n c (o*strides+[r:kernel]*dilations-pads).. -> n c [r..] o..",
                  .types = "T -> T",
                  .layouts = "r -> r",
                  .attrs = "kernel:list strides:list? pads:list? dilations:list?"});
}

// PyTorch keeps the momentum only where there is one.
Result<Signature> sgd_axes(const Instance& instance) {
  const bool momentum = instance.inputs.size() > 2 && instance.inputs[2].has_value();
  LT_ASSIGN(const KnownPattern pattern,
            known_pattern(momentum ? "a.., a.., a.. -> a.., a.." : "a.., a.., a..? -> a.."));
  return expand(*pattern, instance, false);
}

}  // namespace

std::span<const Row> pooling_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_pooling(made);
    add_columns(made);
    made.push_back(reduction("ReduceSum", "N -> N", Merge::kSum, false));
    made.back().adds_into = "0";
    made.push_back(reduction("ReduceLogSumExp", "T -> T", Merge::kLogSumExp, false));
    made.back().flops = 4;
    made.push_back(reduction("ReduceMean", "N -> N", Merge::kSum, true));
    made.push_back(reduction("ReduceMax", "U -> U", Merge::kMax, false));
    made.push_back(reduction("ReduceMin", "U -> U", Merge::kNone, false));
    made.push_back(reduction("ReduceProd", "N -> N", Merge::kNone, false));
    made.push_back({.kind = "ReduceProdGrad",
                    .compute = product_gradient_axes,
                    .types = "T T -> T",
                    .layouts = "r r -> r",
                    .attrs = "axes:list keepdims:int?",
                    .in_place = "0<-1",
                    .flops = 3});
    return made;
  }();
  return rows;
}

std::span<const Row> update_rows() {
  static const std::vector<Row> rows = {
      {.kind = "SgdUpdate",
       .compute = sgd_axes,
       .types = "T T S -> T S",
       .layouts = "x x x -> x x",
       .attrs = "learning_rate:real momentum:real? weight_decay:real?",
       .updates = "0<-0 1<-2",
       .flops = 6,
       .traits = {.recomputable = false, .has_effect = true}},
      {.kind = "AdamWUpdate",
       .axes = "a.., a.., a.., a.. -> a.., a.., a..",
       .types = "T T S S -> T S S",
       .layouts = "x x x x -> x x x",
       .attrs = "learning_rate:real beta1:real beta2:real epsilon:real weight_decay:real?",
       .updates = "0<-0 1<-2 2<-3",
       .flops = 14,
       .traits = {.recomputable = false, .has_effect = true}},
  };
  return rows;
}

}  // namespace lowtide::ops
