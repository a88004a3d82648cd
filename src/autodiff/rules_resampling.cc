// Rules of resampling: the transposed matrices along each dimension.
#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

Status resize_rule(RuleContext& c) {
  ir::Attrs attrs = c.attrs();
  ir::Dims sizes;
  for (const sym::Expr& axis : list_attr(attrs, "axes"))
    sizes.push_back(c.dims(c.input(0))[static_cast<size_t>(axis.constant().value_or(0))]);
  attrs.insert_or_assign("sizes", sizes);
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("ResizeGrad", {dy}, std::move(attrs)));
  return c.give(0, dx);
}

Status pad_repeat_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("PadRepeatGrad", {dy}, c.attrs()));
  return c.give(0, dx);
}

// Both the image and the places have a gradient; what is not wanted is not read and costs its
// memory only while the op runs.
Status grid_sample_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const auto gradients,
            c.make_all("GridSampleGrad", {dy, c.input(0), c.input(1)}, c.attrs()));
  LT_RETURN_IF_ERROR(c.give(0, gradients[0]));
  return c.give(1, gradients[1]);
}

}  // namespace

void add_resampling_rules(RuleTable& table) {
  table["Resize"] = resize_rule;
  table["GridSample"] = grid_sample_rule;
  table["PadRepeat"] = pad_repeat_rule;
}

}  // namespace lowtide::autodiff
