// The evidence by cases for the bound on the time (plan::BranchCertificate).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "verify/facts.h"

namespace lowtide::verify {

// The seconds that every schedule within the budget takes at least, as far as the certificate shows
// it; or, as the error's message, why it shows nothing.
Result<double> branch_bound_seconds(const Facts& facts, const plan::BranchCertificate& certificate,
                                    int64_t budget);

}  // namespace lowtide::verify
