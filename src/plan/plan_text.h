// The file form of a Plan (.lt): JSON with a versioned schema, documented in docs/formats.md, whose
// last member is a checksum over everything before it, so that a file with any byte changed is
// refused. read_plan(print_plan(p)) == p, byte for byte again.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide::plan {

// Bytes of names that are not UTF-8 are written as U+FFFD.
std::string print_plan(const Plan& plan);
// Error: kInput, naming origin and the member, id or number that is wrong (unknown version,
// checksum, ids out of range, sizes negative or above 2^62). A plan that was read has consistent
// ids and sizes; whether its claims hold is src/verify's to say.
Result<Plan> read_plan(std::string_view text, std::string_view origin);

}  // namespace lowtide::plan
