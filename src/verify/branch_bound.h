// The proof checker of a branch-and-bound tree: the evidence by cases for the bound on the time
// (plan::Cases).
//
// Tests: src/pipeline/claims_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "verify/facts.h"

namespace lowtide::verify {

// The ticks that every schedule within the budget takes at least, as far as the certificate shows
// it; or, as the error's message, why it shows nothing.
Result<int64_t> branch_bound_ticks(const Facts& facts, const plan::Cases& certificate,
                                   int64_t budget);

}  // namespace lowtide::verify
