// PackProblem as CSV, in the format of the minimalloc benchmarks, so that outside instances and
// tools apply:
//
//     id,lower,upper,size
//     a,0,3,4
//     "b, the second",1,5,2
//
// Columns may come in any order. `alignment`, `offset`, `group` and `at` are optional columns, and
// their cells may be empty; an offset given is a fixed one; `group` and `at` stand together (Tie).
// Lives are half-open. Fields may be quoted (RFC 4180). An id is given once. The capacity is not
// part of the format.
#pragma once

#include <string>
#include <string_view>

#include "plan/pack_problem.h"

namespace lowtide::plan {

// Reads a problem that plan::check accepts. `origin` names the text in errors (a path, or
// "<stdin>"). Errors: kInput, with origin, line and column name. Any bytes are safe to pass.
// O(length).
Result<PackProblem> parse_pack_csv(std::string_view text, std::string_view origin);

// With `offsets` (one per buffer): an `offset` column with them, which is how a packing is handed
// on. Without: the column holds the fixed offsets, if there are any. A name that an earlier buffer
// has too is printed as "name#2", "name#3" and so on, so that every id stands once.
// parse_pack_csv(print_pack_csv(p, nullptr)) gives back p, less its capacity and those names.
std::string print_pack_csv(const PackProblem& problem, const IdVector<BufferId, int64_t>* offsets);

}  // namespace lowtide::plan
