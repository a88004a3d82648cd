#include "autodiff/backward.h"

#include <fmt/core.h>

#include "autodiff/rules_indexing.h"
#include "autodiff/rules_recurrent.h"
#include "ops/op_table.h"

namespace lowtide::autodiff {
const RuleTable& rules() {
  static const RuleTable table = [] {
    RuleTable all;
    add_elementwise_rules(all);
    add_product_rules(all);
    add_norm_rules(all);
    add_window_rules(all);
    add_move_rules(all);
    add_resampling_rules(all);
    add_indexing_rules(all);
    add_recurrent_rules(all);
    return all;
  }();
  return table;
}

namespace {

// Rounding whose gradient is taken to be that of the identity (the straight-through estimator,
// Bengio, Leonard and Courville 2013): what a network is trained with whose numbers are quantised.
bool passes_straight(const ir::Op& op) {
  const auto straight = op.attrs.find("straight");
  return op.kind == "Round" && straight != op.attrs.end() &&
         straight->second != ir::AttrValue(int64_t{0});
}

// Ops through which nothing flows: their derivative is zero wherever it exists, or they follow
// statistics beside the computation (PyTorch's running ones take no part in the backward pass).
bool is_flat(const ir::Op& op) {
  for (const std::string_view flat :
       {"Floor", "Ceil", "Round", "Sign", "RandomUniform", "RunningUpdate"})
    if (op.kind == flat) return !passes_straight(op);
  return false;
}

std::string_view gradient_name(std::string_view kind) {
  const ops::Row* row = ops::find(kind);
  return row ? ops::traits(*row).gradient : std::string_view();
}

}  // namespace

Backward::Backward(ir::Graph& graph, std::span<const ir::ValueId> wrt,
                   const GradientOptions& options)
    : graph_(graph),
      options_(options),
      forward_ops_(graph.op_count()),
      needs_(graph.value_count(), false),
      so_far_(graph.value_count()) {
  find_needs(wrt);
}

// A value needs a gradient when it is asked for, or when it is a float made by an op from one that
// needs it.
void Backward::find_needs(std::span<const ir::ValueId> wrt) {
  for (const ir::ValueId value : wrt) needs_[value] = true;
  for (const ir::OpId id : graph_.ops()) {
    const ir::Op& op = graph_.op(id);
    if (is_flat(op)) continue;
    bool any = false;
    for (const ir::ValueId input : op.inputs) any = any || needs(input);
    if (!any) continue;
    for (const ir::ValueId output : op.outputs)
      if (is_float(graph_.value(output).dtype)) needs_[output] = true;
  }
}

bool Backward::has_gradient(ir::ValueId value) const {
  return so_far_[value].value.valid() || so_far_[value].constant.has_value();
}

std::optional<double> Backward::constant_gradient(ir::ValueId value) const {
  return so_far_[value].constant;
}

Result<ir::ValueId> Backward::gradient(ir::ValueId value) {
  SoFar& so_far = so_far_[value];
  if (so_far.constant) {
    const ir::Value& like = graph_.value(value);
    ir::Attrs attrs = {{"shape", like.dims},
                       {"value", *so_far.constant},
                       {"dtype", std::string(name(like.dtype))}};
    LT_ASSIGN(const ir::OpId fill, append(visiting_, "Fill", {}, std::move(attrs)));
    so_far = SoFar{std::nullopt, graph_.op(fill).outputs[0]};
  }
  return so_far.value;
}

Status Backward::add_gradient(ir::ValueId value, ir::ValueId summand) {
  LT_CHECK(graph_.value(value).dims == graph_.value(summand).dims,
           "a gradient has the dims of its value");
  if (!has_gradient(value)) {
    so_far_[value].value = summand;
    return {};
  }
  LT_ASSIGN(const ir::ValueId so_far, gradient(value));
  LT_ASSIGN(const ir::OpId sum, append(visiting_, "Add", {so_far, summand}, {}));
  so_far_[value].value = graph_.op(sum).outputs[0];
  mark_summand(value, so_far_[value].value);
  return {};
}

void Backward::mark_summand(ir::ValueId of, ir::ValueId summand) {
  const ir::Value& target = graph_.value(of);
  if (target.category != Category::kParameter || target.producer.valid()) return;
  if (graph_.value(summand).alias == ir::Alias::kOwn)
    graph_.set_category(summand, Category::kGradient);
}

Status Backward::add_constant(ir::ValueId value, double constant) {
  SoFar& so_far = so_far_[value];
  if (!has_gradient(value) || so_far.constant) {
    so_far.constant = so_far.constant.value_or(0) + constant;
    return {};
  }
  ir::Attrs attrs = {{"scale", 1.0}, {"shift", constant}};
  LT_ASSIGN(const ir::OpId sum,
            append(visiting_, "AffineScalar", {so_far.value}, std::move(attrs)));
  so_far_[value].value = graph_.op(sum).outputs[0];
  return {};
}

void Backward::replace_gradient(ir::ValueId value, ir::ValueId gradient) {
  so_far_[value] = SoFar{std::nullopt, gradient};
  mark_summand(value, gradient);
}

Result<ir::OpId> Backward::append(const ir::Op& of, std::string_view kind,
                                  std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
  ops::AppendOptions options;
  options.name = fmt::format("{}/{}", of.name, kind);
  options.module = of.module;
  options.source = of.source;
  options.phase = Phase::kBackward;
  options.category = Category::kTemporary;
  return ops::append(graph_, kind, std::move(inputs), std::move(attrs), options);
}

Status Backward::visit(ir::OpId id) {
  const ir::Op& op = graph_.op(id);
  bool arrived = visit_anyway_.contains(id), wanted = false;
  for (const ir::ValueId output : op.outputs) arrived = arrived || has_gradient(output);
  for (const ir::ValueId input : op.inputs) wanted = wanted || needs(input);
  const std::string_view gradient = gradient_name(op.kind);
  if (!arrived || !wanted || is_flat(op)) return {};
  if (op.attrs.contains("into"))
    return error(ErrorCode::kInput, fmt::format("op '{}' ({}) writes a slice of a larger value, "
                                                "which has no gradient; join slices by a Concat",
                                                op.name, op.kind));
  if (passes_straight(op)) {
    visiting_ = op;
    RuleContext context(*this, id);
    LT_ASSIGN(const ir::ValueId dy, context.dy());
    return context.give(0, dy);
  }
  const auto rule = rules().find(gradient);
  if (rule == rules().end())
    return error(
        ErrorCode::kInput,
        fmt::format("op '{}' ({}) lies between the loss and a parameter and has no gradient{}",
                    op.name, op.kind,
                    ops::find(op.kind) != nullptr && ops::traits(*ops::find(op.kind)).opaque
                        ? ": what it computes is not known here, so give the graph of the whole "
                          "training step"
                        : ""));
  visiting_ = op;
  RuleContext context(*this, id);
  for (const auto& [input, output] : ops::accumulators(ops::instance_of(graph_, id))) {
    const auto i = static_cast<size_t>(input), o = static_cast<size_t>(output);
    if (!context.needs(i) || !context.has_dy(o)) continue;  // a sum hands its gradient on
    LT_ASSIGN(const ir::ValueId dy, context.dy(o));
    LT_RETURN_IF_ERROR(context.give(i, dy));
  }
  return rule->second(context);
}

Status Backward::run(ir::ValueId loss) {
  LT_RETURN_IF_ERROR(add_constant(loss, 1.0));
  for (size_t i = forward_ops_; i-- > 0;) LT_RETURN_IF_ERROR(visit(ir::OpId(i)));
  return {};
}

}  // namespace lowtide::autodiff
