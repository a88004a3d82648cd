// Rules of matrix products and convolutions. Each operand's gradient is a product again, with dy in
// the place of the other side; a transposition becomes a flag, never a copy.
#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

ir::Attrs flags(bool trans_a, bool trans_b) {
  return {{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}};
}

// All axes but `kept`.
std::vector<int64_t> axes_without(size_t rank, size_t kept) {
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rank; ++d)
    if (d != kept) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

Status give_bias(RuleContext& c, size_t input, size_t channel) {
  if (!c.needs(input)) return {};
  LT_ASSIGN(const ValueId dy, c.dy());
  const std::vector<int64_t> axes = axes_without(c.dims(dy).size(), channel);
  if (axes.empty()) return c.give(input, dy);
  return c.give_added(input, "ReduceSum", {dy}, {{"axes", sizes(axes)}, {"keepdims", int64_t{0}}});
}

// ---- MatMul

// The value as a matrix: all dims but the last are rows.
Result<ValueId> as_rows(RuleContext& c, ValueId value) {
  const ir::Dims dims = c.dims(value);
  if (dims.size() == 2) return value;
  sym::Expr rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) rows = rows * dims[d];
  return c.reshape(value, {rows, dims.back()});
}

// A product whose result may have more batch dims than input i.
Status give_batched(RuleContext& c, size_t i, ValueId left, ValueId right, ir::Attrs attrs) {
  const auto batch = [&](ValueId v) { return ir::Dims(c.dims(v).begin(), c.dims(v).end() - 2); };
  const ir::Dims wanted = batch(c.input(i));
  if (batch(c.output(0)) == wanted)
    return c.give_added(i, "MatMul", {left, right}, std::move(attrs));
  LT_ASSIGN(const ValueId product, c.make("MatMul", {left, right}, std::move(attrs)));
  return c.give_reduced(i, product);
}

Status matmul_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ValueId a = c.input(0), b = c.input(1);
  const bool trans_a = integer_attr(c.attrs(), "trans_a") != 0;
  const bool trans_b = integer_attr(c.attrs(), "trans_b") != 0;
  if (c.needs(0)) {
    LT_RETURN_IF_ERROR(trans_a ? give_batched(c, 0, b, dy, flags(trans_b, true))
                               : give_batched(c, 0, dy, b, flags(false, !trans_b)));
  }
  if (c.needs(1)) {
    ValueId left = a, right = dy;
    if (c.dims(b).size() == 2 && !trans_a) {  // a weight under activations of any rank: one product
      LT_ASSIGN(left, as_rows(c, a));
      LT_ASSIGN(right, as_rows(c, dy));
      LT_RETURN_IF_ERROR(trans_b ? c.give_added(1, "MatMul", {right, left}, flags(true, false))
                                 : c.give_added(1, "MatMul", {left, right}, flags(true, false)));
    } else {
      LT_RETURN_IF_ERROR(trans_b ? give_batched(c, 1, dy, a, flags(true, trans_a))
                                 : give_batched(c, 1, a, dy, flags(!trans_a, false)));
    }
  }
  return give_bias(c, 2, c.dims(dy).size() - 1);
}

// ---- convolutions

ir::Attrs window(const RuleContext& c) {
  return only(c.attrs(), {"strides", "pads", "dilations", "group"});
}

Status conv_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ValueId x = c.input(0), w = c.input(1);
  if (c.needs(0)) {
    const ir::Attrs attrs = with(window(c), {{"output_spatial", spatial(c.dims(x))}});
    LT_ASSIGN(const ValueId dx, c.make("ConvDataGrad", {dy, w}, attrs));
    LT_RETURN_IF_ERROR(c.give(0, dx));
  }
  LT_RETURN_IF_ERROR(
      c.give_added(1, "ConvWgtGrad", {x, dy}, with(window(c), {{"kernel", spatial(c.dims(w))}})));
  return give_bias(c, 2, 1);
}

// A transposed convolution: its input is where a convolution's gradient would be, and the other way
// round.
Status transposed_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ValueId x = c.input(0), w = c.input(1);
  if (c.needs(0)) {
    LT_ASSIGN(const ValueId dx, c.make("Conv", {dy, w}, window(c)));
    LT_RETURN_IF_ERROR(c.give(0, dx));
  }
  LT_RETURN_IF_ERROR(
      c.give_added(1, "ConvWgtGrad", {dy, x}, with(window(c), {{"kernel", spatial(c.dims(w))}})));
  return give_bias(c, 2, 1);
}

}  // namespace

void add_product_rules(RuleTable& table) {
  table["MatMul"] = matmul_rule;
  table["Conv"] = conv_rule;
  table["ConvDataGrad"] = transposed_rule;
}

}  // namespace lowtide::autodiff
