// Rules of normalisations, softmax and losses.
#include <fmt/core.h>

#include <utility>
#include <vector>

#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

// Statistics are results so that gradients can use them; the loss must not go through them.
Status refuse_statistics(const RuleContext& c) {
  for (size_t o = 1; o < 3; ++o)
    if (c.has_dy(o))
      return error(ErrorCode::kInput,
                   fmt::format("{}: the loss depends on output {}, a statistic", c.what(), o));
  return {};
}

Status batch_norm_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_statistics(c));
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.give_all_added("BatchNormGrad", {dy, c.input(0), c.input(1), c.output(1), c.output(2)},
                          c.attrs());
}

Status layer_norm_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_statistics(c));
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.give_all_added("LayerNormGrad", {dy, c.input(0), c.input(1), c.output(1), c.output(2)},
                          c.attrs());
}

Status rms_norm_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_statistics(c));
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.give_all_added("RmsNormGrad", {dy, c.input(0), c.input(1), c.output(1)}, c.attrs());
}

// With frozen statistics the op is an affine map for each channel: y = (x - mean) * rstd * scale +
// bias. Mean and variance are running statistics, which no gradient reaches (as in PyTorch).
Status batch_norm_inference_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Dims dims = c.dims(c.input(0));
  ir::Dims column(dims.size() - 1, 1);  // [c 1 1 ...]: broadcasts over n and s
  column[0] = dims[1];
  std::vector<int64_t> axes;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != 1) axes.push_back(static_cast<int64_t>(d));
  const ir::Attrs shift = {{"scale", 1.0}, {"shift", real_attr(c.attrs(), "epsilon")}};
  LT_ASSIGN(const ValueId positive, c.make("AffineScalar", {c.input(4)}, shift));
  LT_ASSIGN(const ValueId rstd, c.make("PowScalar", {positive}, {{"exponent", -0.5}}));
  if (c.needs(1)) {
    LT_ASSIGN(const ValueId mean, c.reshape(c.input(3), column));
    LT_ASSIGN(const ValueId centred, c.make("Sub", {c.input(0), mean}));
    LT_ASSIGN(const ValueId along, c.make("Mul", {centred, dy}));
    LT_ASSIGN(const ValueId summed, c.sum(along, axes, false));
    LT_ASSIGN(const ValueId dscale, c.make("Mul", {summed, rstd}));
    LT_RETURN_IF_ERROR(c.give(1, dscale));
  }
  if (c.needs(2)) {
    LT_ASSIGN(const ValueId dbias, c.sum(dy, axes, false));
    LT_RETURN_IF_ERROR(c.give(2, dbias));
  }
  if (!c.needs(0)) return {};
  LT_ASSIGN(const ValueId factor, c.make("Mul", {rstd, c.input(1)}));
  LT_ASSIGN(const ValueId factors, c.reshape(factor, column));
  LT_ASSIGN(const ValueId dx, c.make("Mul", {dy, factors}));
  return c.give(0, dx);
}

// From the operand: what a norm or a window divides by is cheap to find again.
Status from_operand_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make(std::string(c.kind()) + "Grad", {dy, c.input(0)}, c.attrs()));
  return c.give(0, dx);
}

Status softmax_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make(std::string(c.kind()) + "Grad", {dy, c.output(0)}, c.attrs()));
  return c.give(0, dx);
}

// The gradient of a loss times dy of the loss: an attribute when that is a number, as it is for the
// loss itself.
Status give_scaled(RuleContext& c, std::string_view kind, std::vector<ValueId> inputs,
                   ir::Attrs attrs) {
  const auto known = c.constant_dy();
  attrs.insert_or_assign("scale", known.value_or(1.0));
  LT_ASSIGN(ValueId dx, c.make(kind, std::move(inputs), std::move(attrs)));
  if (!known) {
    LT_ASSIGN(const ValueId dy, c.dy());
    LT_ASSIGN(dx, c.make("Mul", {dx, dy}));
  }
  return c.give(0, dx);
}

Status cross_entropy_rule(RuleContext& c) {
  if (c.has_dy(1))
    return error(ErrorCode::kInput,
                 fmt::format("{}: the loss depends on its log-sum-exp", c.what()));
  std::vector<ValueId> inputs = {c.input(0), c.input(1), c.output(1)};
  if (c.has_input(2)) inputs.push_back(c.input(2));  // how many labels count
  return give_scaled(c, "CrossEntropyGrad", std::move(inputs), c.attrs());
}

Status mse_rule(RuleContext& c) {
  if (c.needs(1))
    return error(ErrorCode::kInput, fmt::format("{}: the target is not a constant", c.what()));
  return give_scaled(c, "MseLossGrad", {c.input(0), c.input(1)}, {});
}

}  // namespace

void add_norm_rules(RuleTable& table) {
  table["BatchNormTrain"] = batch_norm_rule;
  table["BatchNormInference"] = batch_norm_inference_rule;
  table["LayerNorm"] = layer_norm_rule;
  table["RmsNorm"] = rms_norm_rule;
  table["Lrn"] = from_operand_rule;
  table["LpNormalize"] = from_operand_rule;
  table["Softmax"] = softmax_rule;
  table["LogSoftmax"] = softmax_rule;
  table["CrossEntropy"] = cross_entropy_rule;
  table["MseLoss"] = mse_rule;
}

}  // namespace lowtide::autodiff
