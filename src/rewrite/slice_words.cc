// Words of rules about slices and concats: what slices of slices cut out of the whole, what slices
// that follow each other are together, where a slice of a Concat lies in one of its operands.
// Sizes must be constant: where one is a symbol, no condition holds and there are no attributes.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "ops/edit.h"
#include "rewrite/rules.h"
#include "rewrite/words.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

constexpr std::string_view kSliceAttrs[] = {"starts", "sizes", "steps"};

// One dimension of a slice.
struct Cut {
  int64_t start = 0, size = 0, step = 1;
  int64_t end() const { return start + size; }  // with step 1
  bool operator==(const Cut&) const = default;
};
using Cuts = std::vector<Cut>;

struct SliceOp {
  OpId op;
  ValueId x;  // what is cut
  Cuts cuts;
};

std::optional<Cuts> cuts_of(const GraphEdit& edit, OpId slice) {
  const ir::Attrs& attrs = edit.op(slice).attrs;
  const auto list = [&](std::string_view name) -> std::optional<std::vector<int64_t>> {
    const auto found = attrs.find(name);
    return found == attrs.end() ? std::nullopt : numbers(std::get<ir::Dims>(found->second));
  };
  const auto starts = list("starts"), sizes = list("sizes");
  auto steps = list("steps");
  if (!attrs.contains("steps") && starts) steps = std::vector<int64_t>(starts->size(), 1);
  if (!starts || !sizes || !steps) return std::nullopt;
  Cuts cuts;
  for (size_t d = 0; d < starts->size(); ++d)
    cuts.push_back({(*starts)[d], (*sizes)[d], (*steps)[d]});
  return cuts;
}

ir::Attrs attrs_of(const Cuts& cuts) {
  ir::Dims starts, sizes, steps;
  for (const Cut& cut : cuts) {
    starts.emplace_back(cut.start);
    sizes.emplace_back(cut.size);
    steps.emplace_back(cut.step);
  }
  return {{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
}

std::optional<SliceOp> slice_at(const GraphEdit& edit, OpId op) {
  if (!op.valid() || !is_plain(edit, op, "Slice", kSliceAttrs)) return std::nullopt;
  const auto cuts = cuts_of(edit, op);
  if (!cuts) return std::nullopt;
  return SliceOp{op, edit.op(op).inputs[0], *cuts};
}

bool is_all_of(const GraphEdit& edit, const Cuts& cuts, ValueId x) {
  const auto dims = numbers(edit.value(x).dims);
  if (!dims) return false;
  for (size_t d = 0; d < dims->size(); ++d)
    if (cuts[d] != Cut{.start = 0, .size = (*dims)[d]}) return false;
  return true;
}

size_t axis_of(const GraphEdit& edit, OpId concat) {
  const auto found = edit.op(concat).attrs.find("axis");
  LT_CHECK(found != edit.op(concat).attrs.end(), "a rule asks for the axis of what has none");
  return static_cast<size_t>(std::get<int64_t>(found->second));
}

// ---- slices of slices ----

bool is_all(const Arguments& a) {
  const auto cuts = cuts_of(a.edit(), a.op(0));
  return cuts && is_all_of(a.edit(), *cuts, a.value(1));
}

// Of the inner one, then of the outer one.
std::optional<ir::Attrs> of_both(const Arguments& a) {
  const auto inner = cuts_of(a.edit(), a.op(0)), outer = cuts_of(a.edit(), a.op(1));
  if (!inner || !outer) return std::nullopt;
  Cuts cuts;
  for (size_t d = 0; d < outer->size(); ++d) {
    const Cut& in = (*inner)[d];
    const Cut& out = (*outer)[d];
    // With one element a step says nothing.
    cuts.push_back(
        {in.start + out.start * in.step, out.size, out.size <= 1 ? 1 : in.step * out.step});
  }
  return attrs_of(cuts);
}

// ---- concats of slices ----

// Slices of one value that follow each other along the axis, and are the same otherwise.
bool follow(const GraphEdit& edit, OpId concat, ValueId left, ValueId right) {
  const auto first = slice_at(edit, edit.value(left).producer);
  const auto second = slice_at(edit, edit.value(right).producer);
  if (!first || !second || first->x != second->x || edit.op(concat).kind != "Concat") return false;
  const size_t axis = axis_of(edit, concat);
  for (size_t d = 0; d < first->cuts.size(); ++d)
    if (d != axis && first->cuts[d] != second->cuts[d]) return false;
  return first->cuts[axis].step == 1 && second->cuts[axis].step == 1 &&
         first->cuts[axis].end() == second->cuts[axis].start;
}

// What the slices that follow each other in a Concat are together.
std::optional<Cuts> cuts_of_all(const Arguments& a) {
  const size_t axis = axis_of(a.edit(), a.op(0));
  std::optional<Cuts> all;
  for (ValueId part : a.values(1)) {
    const auto cuts = cuts_of(a.edit(), a.edit().value(part).producer);
    if (!cuts) return std::nullopt;
    if (all)
      (*all)[axis].size += (*cuts)[axis].size;
    else
      all = cuts;
  }
  return all;
}

bool among_others(const Arguments& a) {
  return a.edit().op(a.op(0)).inputs.size() > a.values(1).size();
}

bool are_all(const Arguments& a) {
  const auto cuts = cuts_of_all(a);
  return cuts && is_all_of(a.edit(), *cuts, a.value(2));
}

std::optional<ir::Attrs> joined(const Arguments& a) {
  const auto cuts = cuts_of_all(a);
  return cuts ? std::optional(attrs_of(*cuts)) : std::nullopt;
}

bool same_axis(const Arguments& a) {
  return axis_of(a.edit(), a.op(0)) == axis_of(a.edit(), a.op(1));
}

// ---- slices of concats ----

// Where a slice of a Concat lies in one operand: which, and the cuts in it.
struct Inside {
  size_t operand = 0;
  Cuts cuts;
};

std::optional<Inside> inside_of(const GraphEdit& edit, OpId reader, OpId concat) {
  const auto cut = slice_at(edit, reader);
  if (!cut) return std::nullopt;
  const size_t axis = axis_of(edit, concat);
  const Cut along = cut->cuts[axis];
  if (along.size < 1) return std::nullopt;
  const int64_t last = along.start + (along.size - 1) * along.step;
  int64_t begin = 0;
  const std::vector<ValueId>& operands = edit.op(concat).inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto dims = numbers(edit.value(operands[i]).dims);
    if (!dims) return std::nullopt;
    const int64_t end = begin + (*dims)[axis];
    if (std::min(along.start, last) >= begin && std::max(along.start, last) < end) {
      Inside inside{i, cut->cuts};
      inside.cuts[axis].start -= begin;
      return inside;
    }
    begin = end;
  }
  return std::nullopt;
}

// Whether a slice of this value would be a view.
bool would_be_view(const GraphEdit& edit, ValueId x, const Cuts& cuts) {
  const ir::Value& value = edit.value(x);
  const ir::Attrs attrs = attrs_of(cuts);
  const auto made =
      ops::infer({"Slice", &attrs, {ops::Type{value.dtype, value.dims, value.layout}}});
  return made && (*made)[0].alias == ir::Alias::kView;
}

// slice, concat, operands before the one that it lies in
bool lies_behind(const Arguments& a) {
  const auto inside = inside_of(a.edit(), a.op(0), a.op(1));
  return inside && inside->operand == a.values(2).size();
}

bool is_all_behind(const Arguments& a) {
  const auto inside = inside_of(a.edit(), a.op(0), a.op(1));
  return inside && inside->operand == a.values(2).size() &&
         is_all_of(a.edit(), inside->cuts, a.edit().op(a.op(1)).inputs[inside->operand]);
}

std::optional<ir::Attrs> inside(const Arguments& a) {
  const auto inside = inside_of(a.edit(), a.op(0), a.op(1));
  return inside ? std::optional(attrs_of(inside->cuts)) : std::nullopt;
}

// All who read the Concat are slices that lie in one operand, and would lie alike cut from it; so
// that it goes.
bool all_lie_in_operands(const Arguments& a) {
  const GraphEdit& edit = a.edit();
  const OpId concat = a.op(0);
  if (edit.value(a.value(0)).is_output) return false;
  const auto readers = edit.readers(a.value(0));
  return std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
    const auto inside = inside_of(edit, reader, concat);
    if (!inside) return false;
    const ValueId operand = edit.op(concat).inputs[inside->operand];
    const ValueId was = edit.op(reader).outputs[0];
    if (!keeps_only_itself(edit, operand)) return false;
    if (is_all_of(edit, inside->cuts, operand)) return !edit.value(was).is_output;
    return would_be_view(edit, operand, inside->cuts) == is_view(edit, was);
  });
}

constexpr ConditionWord kSliceConditions[] = {
    {"is_all", "ov", is_all},     // slice, of what
    {"are_all", "oOv", are_all},  // concat, slices that follow each other, of what
    {"among_others", "oO", among_others},
    {"same_axis", "oo", same_axis},
    {"lies_behind", "ooV", lies_behind},  // slice, concat, the operands before the one it lies in
    {"is_all_behind", "ooV", is_all_behind},  // likewise, and is all of it
    {"all_lie_in_operands", "o", all_lie_in_operands},
};

constexpr AttributesWord kSliceAttributes[] = {
    {"of_both", "oo", of_both},  // inner, outer slice
    {"joined", "oO", joined},    // concat, slices that follow each other
    {"inside", "oo", inside},    // slice, concat
};

constexpr RelationWord kSliceRelations[] = {{"follow", follow}};

}  // namespace

Words slice_words() {
  return {kSliceConditions, kSliceAttributes, kSliceRelations};
}

}  // namespace lowtide::rewrite
