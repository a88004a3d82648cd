#include "rewrite/slice_concat.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/edit.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

constexpr std::string_view kSliceAttrs[] = {"starts", "sizes", "steps"};
constexpr std::string_view kConcatAttrs[] = {"axis"};

// One dimension of a slice.
struct Cut {
  int64_t start = 0, size = 0, step = 1;
  int64_t end() const { return start + size; }  // with step 1
  bool operator==(const Cut&) const = default;
};
using Cuts = std::vector<Cut>;

std::optional<std::vector<int64_t>> numbers(const ir::Dims& dims) {
  std::vector<int64_t> result;
  for (const sym::Expr& dim : dims) {
    const auto number = dim.constant();
    if (!number) return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

std::optional<std::vector<int64_t>> dims_of(const GraphEdit& edit, ValueId value) {
  return numbers(edit.value(value).dims);
}

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

bool is_all(const Cuts& cuts, const std::vector<int64_t>& dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (cuts[d] != Cut{.start = 0, .size = dims[d]}) return false;
  return true;
}

ops::AppendOptions named_after(const GraphEdit& edit, OpId op) {
  ops::AppendOptions options;
  options.name = edit.op(op).name;
  options.module = edit.op(op).module;
  options.source = edit.op(op).source;
  options.phase = edit.op(op).phase;
  return options;
}

std::optional<ValueId> append(GraphEdit& edit, OpId root, std::string_view kind,
                              std::vector<ValueId> inputs, ir::Attrs attrs) {
  const auto made = ops::append(edit, ir::Place::before(root), kind, std::move(inputs),
                                std::move(attrs), named_after(edit, root));
  if (!made) return std::nullopt;
  return edit.op(*made).outputs[0];
}

std::optional<ValueId> slice(GraphEdit& edit, OpId root, ValueId x, const Cuts& cuts) {
  ir::Dims starts, sizes, steps;
  for (const Cut& cut : cuts) {
    starts.emplace_back(cut.start);
    sizes.emplace_back(cut.size);
    steps.emplace_back(cut.step);
  }
  return append(edit, root, "Slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

bool is_view(const GraphEdit& edit, ValueId value) {
  return edit.value(value).alias == ir::Alias::kView;
}

// Neither a view where there was a copy, nor a copy where there was a view.
bool lies_alike(const GraphEdit& edit, ValueId now, ValueId was) {
  return is_view(edit, now) == is_view(edit, was) &&
         (!is_view(edit, now) || edit.value(now).storage == edit.value(was).storage);
}

struct SliceOp {
  OpId op;
  ValueId x;  // what is cut
  Cuts cuts;
};

std::optional<SliceOp> slice_at(const GraphEdit& edit, OpId op) {
  if (!is_plain(edit, op, "Slice", kSliceAttrs)) return std::nullopt;
  const auto cuts = cuts_of(edit, op);
  if (!cuts) return std::nullopt;
  return SliceOp{op, edit.op(op).inputs[0], *cuts};
}

std::optional<SliceOp> slice_making(const GraphEdit& edit, ValueId value) {
  const OpId maker = edit.value(value).producer;
  return maker.valid() ? slice_at(edit, maker) : std::nullopt;
}

size_t axis_of(const GraphEdit& edit, OpId concat) {
  return static_cast<size_t>(std::get<int64_t>(edit.op(concat).attrs.find("axis")->second));
}

// ---- slices ----

std::optional<ValueId> whole_slice(GraphEdit& edit, OpId root) {
  const auto cut = slice_at(edit, root);
  if (!cut || !is_view(edit, edit.op(root).outputs[0])) return std::nullopt;
  const auto dims = dims_of(edit, cut->x);
  if (!dims || !is_all(cut->cuts, *dims)) return std::nullopt;
  return cut->x;
}

Cuts cuts_of_both(const SliceOp& inner, const SliceOp& outer) {
  Cuts cuts;
  for (size_t d = 0; d < outer.cuts.size(); ++d) {
    const Cut& in = inner.cuts[d];
    const Cut& out = outer.cuts[d];
    // With one element a step says nothing.
    cuts.push_back(
        {in.start + out.start * in.step, out.size, out.size <= 1 ? 1 : in.step * out.step});
  }
  return cuts;
}

std::optional<ValueId> slice_of_slice(GraphEdit& edit, OpId root) {
  const auto outer = slice_at(edit, root);
  if (!outer) return std::nullopt;
  const auto inner = slice_making(edit, outer->x);
  if (!inner) return std::nullopt;
  const bool goes = !is_view(edit, outer->x) && is_read_once(edit, outer->x);
  if (!goes && !is_view(edit, outer->x)) return std::nullopt;
  const ValueId was = edit.op(root).outputs[0];
  const auto now = slice(edit, root, inner->x, cuts_of_both(*inner, *outer));
  if (!now) return std::nullopt;
  const bool alike = lies_alike(edit, *now, was) || (goes && !is_view(edit, *now));
  return alike ? now : std::nullopt;
}

std::optional<ValueId> slice_of_read_slice(GraphEdit& edit, OpId root) {
  const auto outer = slice_at(edit, root);
  if (!outer || is_view(edit, outer->x)) return std::nullopt;
  const auto inner = slice_making(edit, outer->x);
  const ValueId was = edit.op(root).outputs[0];
  if (!inner || is_view(edit, was)) return std::nullopt;
  const auto now = slice(edit, root, inner->x, cuts_of_both(*inner, *outer));
  return now && !is_view(edit, *now) ? now : std::nullopt;
}

// ---- concats ----

std::optional<ValueId> concat_of_one(GraphEdit& edit, OpId root) {
  if (!is_plain(edit, root, "Concat", kConcatAttrs)) return std::nullopt;
  const std::vector<ValueId>& inputs = edit.op(root).inputs;
  if (inputs.size() != 1 || !keeps_only_itself(edit, inputs[0])) return std::nullopt;
  return inputs[0];
}

// Slices of one value that follow each other along the axis, and are the same otherwise.
bool continues(const SliceOp& first, const SliceOp& second, size_t axis) {
  if (first.x != second.x) return false;
  for (size_t d = 0; d < first.cuts.size(); ++d)
    if (d != axis && first.cuts[d] != second.cuts[d]) return false;
  return first.cuts[axis].step == 1 && second.cuts[axis].step == 1 &&
         first.cuts[axis].end() == second.cuts[axis].start;
}

// The operands [begin, end) of a Concat as one value; nothing where the guard refuses.
std::optional<ValueId> one_slice(GraphEdit& edit, OpId root, const SliceOp& first, int64_t size,
                                 std::span<const ValueId> parts) {
  for (ValueId part : parts)
    if (!is_view(edit, part) && !is_read_once(edit, part)) return std::nullopt;
  Cuts cuts = first.cuts;
  cuts[axis_of(edit, root)].size = size;
  const auto dims = dims_of(edit, first.x);
  if (dims && is_all(cuts, *dims)) {
    if (keeps_only_itself(edit, first.x)) return first.x;
    return std::nullopt;
  }
  const auto now = slice(edit, root, first.x, cuts);
  if (!now) return std::nullopt;
  for (ValueId part : parts)
    if (!lies_alike(edit, *now, part)) return std::nullopt;
  return now;
}

std::optional<ValueId> concat_of_slices(GraphEdit& edit, OpId root) {
  if (!is_plain(edit, root, "Concat", kConcatAttrs)) return std::nullopt;
  const std::vector<ValueId> inputs = edit.op(root).inputs;
  const ir::Attrs attrs = edit.op(root).attrs;
  const size_t axis = axis_of(edit, root);
  std::vector<ValueId> now;
  for (size_t begin = 0; begin < inputs.size();) {
    size_t end = begin + 1;
    const auto first = slice_making(edit, inputs[begin]);
    int64_t size = first ? first->cuts[axis].size : 0;
    for (auto last = first; last && end < inputs.size(); ++end) {
      const auto next = slice_making(edit, inputs[end]);
      if (!next || !continues(*last, *next, axis)) break;
      size += next->cuts[axis].size;
      last = next;
    }
    std::optional<ValueId> one;
    if (end > begin + 1)
      one = one_slice(edit, root, *first, size, std::span(inputs).subspan(begin, end - begin));
    if (one)
      now.push_back(*one);
    else
      now.insert(now.end(), inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                 inputs.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  if (now.size() == inputs.size()) return std::nullopt;
  // The Concat was a copy: a view in its place may keep more than that.
  if (now.size() == 1)
    return keeps_only_itself(edit, now[0]) ? std::optional(now[0]) : std::nullopt;
  return append(edit, root, "Concat", now, attrs);
}

std::optional<ValueId> concat_of_concat(GraphEdit& edit, OpId root) {
  if (!is_plain(edit, root, "Concat", kConcatAttrs)) return std::nullopt;
  const std::vector<ValueId> inputs = edit.op(root).inputs;
  const ir::Attrs attrs = edit.op(root).attrs;
  std::vector<ValueId> now;
  bool found = false;
  for (ValueId input : inputs) {
    const auto inner = plain_maker(edit, input, "Concat", kConcatAttrs);
    const bool flat =
        inner && axis_of(edit, *inner) == axis_of(edit, root) && is_read_once(edit, input) && [&] {
          const auto& operands = edit.op(*inner).inputs;
          return std::all_of(operands.begin(), operands.end(),
                             [&](ValueId v) { return keeps_only_itself(edit, v); });
        }();
    found |= flat;
    if (flat)
      now.insert(now.end(), edit.op(*inner).inputs.begin(), edit.op(*inner).inputs.end());
    else
      now.push_back(input);
  }
  return found ? append(edit, root, "Concat", now, attrs) : std::nullopt;
}

// ---- slices of concats ----

// Where a slice of a Concat lies in one operand: that, and the cuts in it.
struct Inside {
  ValueId operand;
  Cuts cuts;
  bool all = false;  // of the operand
};

std::optional<Inside> inside_of(const GraphEdit& edit, OpId reader, OpId concat) {
  const auto cut = slice_at(edit, reader);
  if (!cut) return std::nullopt;
  const size_t axis = axis_of(edit, concat);
  const Cut along = cut->cuts[axis];
  if (along.size < 1) return std::nullopt;
  const int64_t last = along.start + (along.size - 1) * along.step;
  int64_t begin = 0;
  for (ValueId operand : edit.op(concat).inputs) {
    const auto dims = dims_of(edit, operand);
    if (!dims) return std::nullopt;
    const int64_t end = begin + (*dims)[axis];
    if (std::min(along.start, last) >= begin && std::max(along.start, last) < end) {
      Inside inside{operand, cut->cuts, false};
      inside.cuts[axis].start -= begin;
      inside.all = is_all(inside.cuts, *dims);
      if (!keeps_only_itself(edit, operand)) return std::nullopt;
      return inside;
    }
    begin = end;
  }
  return std::nullopt;
}

// A slice of the operand, before the root; nothing where it would lie otherwise than `was`.
std::optional<ValueId> slice_of_operand(GraphEdit& edit, OpId root, const Inside& inside,
                                        ValueId was) {
  if (inside.all) return inside.operand;
  const auto now = slice(edit, root, inside.operand, inside.cuts);
  if (!now || is_view(edit, *now) != is_view(edit, was)) return std::nullopt;
  return now;
}

std::optional<ValueId> slice_of_concat(GraphEdit& edit, OpId root) {
  if (!is_plain(edit, root, "Slice", kSliceAttrs)) return std::nullopt;
  const ValueId whole = edit.op(root).inputs[0];
  const auto concat = plain_maker(edit, whole, "Concat", kConcatAttrs);
  if (!concat || edit.value(whole).is_output) return std::nullopt;
  const std::vector<OpId> readers(edit.readers(whole).begin(), edit.readers(whole).end());
  for (OpId reader : readers) {
    const auto inside = inside_of(edit, reader, *concat);
    const ValueId was = edit.op(reader).outputs[0];
    if (!inside || (inside->all && edit.value(was).is_output)) return std::nullopt;
    // Tried, and taken back: the others follow one by one.
    const GraphEdit::Mark before = edit.mark();
    const bool works = slice_of_operand(edit, root, *inside, was).has_value();
    edit.rollback(before);
    if (!works) return std::nullopt;
  }
  const Inside inside = *inside_of(edit, root, *concat);
  return slice_of_operand(edit, root, inside, edit.op(root).outputs[0]);
}

constexpr Rule kSliceConcatRules[] = {
    {"whole-slice", "Slice", "Slice(x), all of x", "x", whole_slice},
    {"slice-of-slice", "Slice", "Slice(Slice(x))", "Slice(x)", slice_of_slice},
    {"slice-of-concat", "Slice", "Slice(Concat(.., x, ..)) in x", "Slice(x)", slice_of_concat},
    {"concat-of-one", "Concat", "Concat(x)", "x", concat_of_one},
    {"concat-of-slices", "Concat", "Concat(.., x[a:b], x[b:c], ..)", "Concat(.., x[a:c], ..)",
     concat_of_slices},
    {"concat-of-concat", "Concat", "Concat(.., Concat(x, y), ..)", "Concat(.., x, y, ..)",
     concat_of_concat},
};

constexpr Rule kDirectSliceRules[] = {
    {"slice-of-read-slice", "Slice", "Slice(Slice(x)), both copies", "Slice(x)",
     slice_of_read_slice},
};

}  // namespace

std::span<const Rule> slice_concat_rules() {
  return kSliceConcatRules;
}

std::span<const Rule> direct_slice_rules() {
  return kDirectSliceRules;
}

}  // namespace lowtide::rewrite
