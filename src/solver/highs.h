// HiGHS's simplex method and branch and cut (Huangfu and Hall 2018), through its C interface.
//
// Tests: solve_test.cc.
#pragma once

#include "base/result.h"
#include "solver/answer.h"
#include "solver/highs_library.h"

namespace lowtide::solver {

// `program.check()` holds, and it has rows.
Result<Answer> solve_with_highs(const HighsLibrary& library, const Program& program,
                                Allowance& allowance);

}  // namespace lowtide::solver
