#include "rewrite/round_trips.h"

namespace lowtide::rewrite {
namespace {

constexpr Rule kRoundTripRules[] = {
    {"transpose-of-transpose", "Transpose:outer(Transpose:inner(x))",
     "plain, is_copy(inner), is_copy(outer), read_once(inner), moves_back(inner, outer), "
     "same_type(x, outer), keeps_only_itself(x), not_overwritten(x)",
     "x"},
    {"transpose-of-transpose", "Transpose:outer(Transpose:inner(x))",
     "plain, is_copy(inner), is_copy(outer), read_once(inner), !moves_back(inner, outer), "
     "is_copy(result)",
     "Transpose[of_both_moves(inner, outer)](x)"},
    {"no-transpose", "Transpose:t(x)",
     "plain, is_copy(t), moves_nothing(t), same_type(x, t), keeps_only_itself(x), "
     "not_overwritten(x)",
     "x"},

    {"no-expand", "Expand:e(x)",
     "plain, is_copy(e), same_type(x, e), keeps_only_itself(x), not_overwritten(x)", "x"},

    {"no-cast", "Cast:c(x)",
     "plain, is_copy(c), same_type(x, c), keeps_only_itself(x), not_overwritten(x)", "x"},
    {"cast-back", "Cast:outer(Cast:inner(x))",
     "plain, read_once(inner), exact(inner, x), same_type(x, outer), keeps_only_itself(x), "
     "not_overwritten(x)",
     "x"},
    {"cast-of-cast", "Cast:outer(Cast:inner(x))",
     "plain, read_once(inner), exact(inner, x), same_numbers(inner, x), !same_type(x, outer), "
     "keeps_only_itself(x), not_overwritten(x)",
     "Cast[as(outer)](x)"},
};

}  // namespace

std::span<const Rule> round_trip_rules() {
  return kRoundTripRules;
}

}  // namespace lowtide::rewrite
