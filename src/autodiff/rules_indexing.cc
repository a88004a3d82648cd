// Rules of ops that look along an axis or read and write at places given by data. What was read
// gets its gradient at the place it was read from, so a read's gradient is a write that adds, and a
// write's gradient a read. The zeros that a write starts from are overwritten in place.
#include "autodiff/rules_indexing.h"

#include <fmt/core.h>

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

Result<ValueId> zeros_like(RuleContext& c, ValueId value) {
  return c.make(
      "Fill", {},
      {{"shape", c.dims(value)}, {"value", 0.0}, {"dtype", std::string(name(c.dtype(value)))}});
}

// The gradient of input 0 after `places` of it were read: dy added there.
Status give_added_at(RuleContext& c, std::string_view kind, ValueId places, ir::Attrs attrs) {
  if (!c.has_dy(0) || !c.needs(0)) return {};
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId zeros, zeros_like(c, c.input(0)));
  attrs.insert_or_assign("reduction", std::string("add"));
  LT_ASSIGN(const ValueId dx, c.make(kind, {zeros, places, dy}, std::move(attrs)));
  return c.give(0, dx);
}

Status top_k_rule(RuleContext& c) {
  return give_added_at(c, "ScatterElements", c.output(1), only(c.attrs(), {"axis"}));
}

Status gather_elements_rule(RuleContext& c) {
  return give_added_at(c, "ScatterElements", c.input(1), c.attrs());
}

Status gather_nd_rule(RuleContext& c) {
  return give_added_at(c, "ScatterND", c.input(1), c.attrs());
}

// 1 where two tensors are equal, 0 elsewhere, as floats of dy's type.
Result<ValueId> where_equal(RuleContext& c, ValueId a, ValueId b) {
  LT_ASSIGN(const ValueId equal, c.make("Equal", {a, b}));
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.make("Cast", {equal}, {{"to", std::string(name(c.dtype(dy)))}});
}

// The largest or smallest of an element and of what is written there: all that are equal to it have
// the same share of the gradient, as PyTorch's scatter_reduce gives it.
Status scattered_extreme(RuleContext& c, std::string_view read, const ir::Attrs& where) {
  const ValueId data = c.input(0), places = c.input(1), updates = c.input(2);
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId there, c.make(read, {c.output(0), places}, where));
  LT_ASSIGN(const ValueId stayed, where_equal(c, data, c.output(0)));
  LT_ASSIGN(const ValueId reached, where_equal(c, updates, there));
  LT_ASSIGN(const ValueId count, c.make(c.kind(), {stayed, places, reached},
                                        with(where, {{"reduction", std::string("add")}})));
  LT_ASSIGN(const ValueId share, c.make("Div", {dy, count}));
  if (c.needs(0)) {
    LT_ASSIGN(const ValueId ddata, c.make("Mul", {share, stayed}));
    LT_RETURN_IF_ERROR(c.give(0, ddata));
  }
  if (!c.needs(2)) return {};
  LT_ASSIGN(const ValueId shares, c.make(read, {share, places}, where));
  LT_ASSIGN(const ValueId dupdates, c.make("Mul", {shares, reached}));
  return c.give(2, dupdates);
}

// Written: the data's gradient is lost there, and is the update's. Added: both have it. Of two
// updates at one place each is taken to be the one that stays.
Status scatter_rule(RuleContext& c, std::string_view read, const ir::Attrs& where) {
  std::string reduction = "none";
  if (const auto found = c.attrs().find("reduction"); found != c.attrs().end())
    reduction = std::get<std::string>(found->second);
  if (reduction == "max" || reduction == "min") return scattered_extreme(c, read, where);
  if (reduction != "none" && reduction != "add")
    return error(ErrorCode::kInput,
                 fmt::format("{}: reduction {} has no gradient, only none, add, max and min",
                             c.what(), reduction));
  LT_ASSIGN(const ValueId dy, c.dy());
  if (c.needs(0)) {
    ValueId ddata = dy;
    if (reduction == "none") {
      LT_ASSIGN(const ValueId zeros, zeros_like(c, c.input(2)));
      LT_ASSIGN(ddata, c.make(c.kind(), {dy, c.input(1), zeros}, where));
    }
    LT_RETURN_IF_ERROR(c.give(0, ddata));
  }
  if (!c.needs(2)) return {};
  LT_ASSIGN(const ValueId dupdates, c.make(read, {dy, c.input(1)}, where));
  return c.give(2, dupdates);
}

Status scatter_elements_rule(RuleContext& c) {
  return scatter_rule(c, "GatherElements", only(c.attrs(), {"axis"}));
}

Status scatter_nd_rule(RuleContext& c) {
  return scatter_rule(c, "GatherND", only(c.attrs(), {"batch_dims"}));
}

// An element is in the sums of all behind it, so its gradient is their sum.
Status cum_sum_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const int64_t reverse = integer_attr(c.attrs(), "reverse");
  LT_ASSIGN(const ValueId dx,
            c.make("CumSum", {dy}, with(c.attrs(), {{"reverse", int64_t{reverse == 0}}})));
  return c.give(0, dx);
}

// The same turn again.
Status reverse_sequence_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("ReverseSequence", {dy, c.input(1)}, c.attrs()));
  return c.give(0, dx);
}

}  // namespace

void add_indexing_rules(RuleTable& table) {
  table["TopK"] = top_k_rule;
  table["CumSum"] = cum_sum_rule;
  table["ReverseSequence"] = reverse_sequence_rule;
  table["GatherElements"] = gather_elements_rule;
  table["ScatterElements"] = scatter_elements_rule;
  table["GatherND"] = gather_nd_rule;
  table["ScatterND"] = scatter_nd_rule;
}

}  // namespace lowtide::autodiff
