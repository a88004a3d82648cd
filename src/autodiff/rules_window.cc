// Rules of pooling and reductions.
#include <fmt/core.h>

#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

// A maximum needs the taps it chose, one byte each, and neither x nor y.
Status max_pool_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Attrs attrs = with(c.attrs(), {{"input_spatial", spatial(c.dims(c.input(0)))}});
  LT_ASSIGN(const ValueId dx, c.make("MaxPoolGrad", {dy, c.output(1)}, attrs));
  return c.give(0, dx);
}

Status avg_pool_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Attrs attrs = with(c.attrs(), {{"input_spatial", spatial(c.dims(c.input(0)))}});
  LT_ASSIGN(const ValueId dx, c.make("AvgPoolGrad", {dy}, attrs));
  return c.give(0, dx);
}

// The blocks that the image's gradient has where the columns went.
Status columns_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Dims dims = c.dims(c.input(0));
  const auto rank = static_cast<std::ptrdiff_t>(dims.size() / 2) - 1;
  ir::Attrs attrs =
      with(c.attrs(), {{"kernel", ir::Dims(dims.begin() + 2, dims.begin() + 2 + rank)}});
  attrs.erase("spatial");
  attrs.erase("output_spatial");
  LT_ASSIGN(const ValueId dx, c.make("Col2ImGrad", {dy}, attrs));
  return c.give(0, dx);
}

// ---- reductions

// The dims of the operand with the reduced ones as 1: what the result broadcasts from.
Result<ir::Dims> kept_dims(const RuleContext& c) {
  ir::Dims dims = c.dims(c.input(0));
  for (const sym::Expr& entry : list_attr(c.attrs(), "axes")) {
    const auto axis = entry.constant();
    if (!axis) return error(ErrorCode::kInput, fmt::format("{}: axes are not constant", c.what()));
    dims[static_cast<size_t>(*axis < 0 ? *axis + static_cast<int64_t>(dims.size()) : *axis)] = 1;
  }
  return dims;
}

Status give_spread(RuleContext& c, ValueId dy) {
  LT_ASSIGN(const ir::Dims kept, kept_dims(c));
  LT_ASSIGN(const ValueId aligned, c.reshape(dy, kept));
  const ir::Dims shape = c.dims(c.input(0));
  if (kept == shape) return c.give(0, aligned);
  LT_ASSIGN(const ValueId dx, c.make("Expand", {aligned}, {{"shape", shape}}));
  return c.give(0, dx);
}

Status sum_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  return give_spread(c, dy);
}

// Divides before spreading, where there is less to divide.
Status mean_rule(RuleContext& c) {
  LT_ASSIGN(const ir::Dims kept, kept_dims(c));
  const ir::Dims dims = c.dims(c.input(0));
  int64_t count = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (kept[d] == dims[d]) continue;
    const auto extent = dims[d].constant();
    if (!extent)
      return error(ErrorCode::kInput,
                   fmt::format("{}: a mean over the symbolic size {}; bind it first", c.what(),
                               sym::print(dims[d])));
    count *= *extent;
  }
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Attrs attrs = {{"scale", 1 / static_cast<double>(count)}, {"shift", 0.0}};
  LT_ASSIGN(const ValueId share, c.make("AffineScalar", {dy}, attrs));
  return give_spread(c, share);
}

// dy goes to the elements that equal the maximum or minimum, in equal shares.
Status extreme_rule(RuleContext& c) {
  LT_ASSIGN(const ir::Dims kept, kept_dims(c));
  LT_ASSIGN(const ValueId highest, c.reshape(c.output(0), kept));
  LT_ASSIGN(const ValueId equal, c.make("Equal", {c.input(0), highest}));
  LT_ASSIGN(const ValueId ones,
            c.make("Cast", {equal}, {{"to", std::string(name(c.dtype(c.input(0))))}}));
  std::vector<int64_t> axes;
  for (size_t d = 0; d < kept.size(); ++d)
    if (!(kept[d] == c.dims(c.input(0))[d])) axes.push_back(static_cast<int64_t>(d));
  LT_ASSIGN(const ValueId ties, c.sum(ones, axes, true));
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId aligned, c.reshape(dy, kept));
  LT_ASSIGN(const ValueId share, c.make("Div", {aligned, ties}));
  LT_ASSIGN(const ValueId dx, c.make("Mul", {ones, share}));
  return c.give(0, dx);
}

// dx = dy exp(x - y): the softmax of x.
Status log_sum_exp_rule(RuleContext& c) {
  LT_ASSIGN(const ir::Dims kept, kept_dims(c));
  LT_ASSIGN(const ValueId total, c.reshape(c.output(0), kept));
  LT_ASSIGN(const ValueId below, c.make("Sub", {c.input(0), total}));
  LT_ASSIGN(const ValueId share, c.make("Exp", {below}));
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId aligned, c.reshape(dy, kept));
  LT_ASSIGN(const ValueId dx, c.make("Mul", {share, aligned}));
  return c.give(0, dx);
}

Status product_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("ReduceProdGrad", {dy, c.input(0)}, c.attrs()));
  return c.give(0, dx);
}

}  // namespace

void add_window_rules(RuleTable& table) {
  table["MaxPool"] = max_pool_rule;
  table["Col2Im"] = columns_rule;
  table["AvgPool"] = avg_pool_rule;
  table["ReduceSum"] = sum_rule;
  table["ReduceMean"] = mean_rule;
  table["ReduceLogSumExp"] = log_sum_exp_rule;
  table["ReduceMax"] = extreme_rule;
  table["ReduceMin"] = extreme_rule;
  table["ReduceProd"] = product_rule;
}

}  // namespace lowtide::autodiff
