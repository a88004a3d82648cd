#include "rewrite/slice_concat.h"

namespace lowtide::rewrite {
namespace {

constexpr Rule kSliceConcatRules[] = {
    {"whole-slice", "Slice:s(x)", "plain, is_view(s), is_all(s, x)", "x"},

    {"slice-of-slice", "Slice:outer(Slice:inner(x))",
     "plain, is_view(inner), lies_alike(result, outer)", "Slice[of_both(inner, outer)](x)"},
    {"slice-of-slice", "Slice:outer(Slice:inner(x))",
     "plain, is_copy(inner), read_once(inner), is_copy(result)", "Slice[of_both(inner, outer)](x)"},

    {"slice-of-concat", "Slice:s(Concat:c(before.., y, ..))",
     "plain, is_all_behind(s, c, before), all_lie_in_operands(c)", "y"},
    {"slice-of-concat", "Slice:s(Concat:c(before.., y, ..))",
     "plain, lies_behind(s, c, before), !is_all_behind(s, c, before), all_lie_in_operands(c)",
     "Slice[inside(s, c)](y)"},

    {"concat-of-one", "Concat:c(x)", "plain, keeps_only_itself(x)", "x"},

    // All of the operands, or some.
    {"concat-of-slices", "Concat:c(Slice:parts(x)..{follow})",
     "several(parts), plain, view_or_read_once(parts), are_all(c, parts, x), keeps_only_itself(x)",
     "x"},
    // The Concat was a copy: a view in its place may keep more than that.
    {"concat-of-slices", "Concat:c(Slice:parts(x)..{follow})",
     "several(parts), plain, view_or_read_once(parts), !are_all(c, parts, x), "
     "lies_alike(result, parts), keeps_only_itself(result)",
     "Slice[joined(c, parts)](x)"},
    {"concat-of-slices", "Concat:c(.., Slice:parts(x)..{follow}, ..)",
     "several(parts), among_others(c, parts), plain, view_or_read_once(parts), "
     "are_all(c, parts, x), keeps_only_itself(x)",
     "Concat[as(c)](.., x, ..)"},
    {"concat-of-slices", "Concat:c(.., Slice:parts(x)..{follow}, ..)",
     "several(parts), among_others(c, parts), plain, view_or_read_once(parts), "
     "!are_all(c, parts, x), lies_alike(one, parts)",
     "Concat[as(c)](.., Slice[joined(c, parts)]:one(x), ..)"},

    {"concat-of-concat", "Concat:c(.., Concat:d(ys..), ..)",
     "plain, same_axis(c, d), read_once(d), keeps_only_itself(ys)", "Concat[as(c)](.., ys.., ..)"},
};

constexpr Rule kDirectSliceRules[] = {
    {"slice-of-read-slice", "Slice:outer(Slice:inner(x))",
     "plain, is_copy(inner), is_copy(outer), is_copy(result)", "Slice[of_both(inner, outer)](x)"},
};

}  // namespace

std::span<const Rule> slice_concat_rules() {
  return kSliceConcatRules;
}

std::span<const Rule> direct_slice_rules() {
  return kDirectSliceRules;
}

}  // namespace lowtide::rewrite
