// COIN-OR's solvers: Clp for linear programs, CBC's branch and cut for integer ones (Forrest and
// Lougee-Heimer 2005).
//
// Tests: solve_test.cc.
#pragma once

#include <string>

#include "base/result.h"
#include "solver/answer.h"

namespace lowtide::solver {

// `program.check()` holds, and it has rows.
Result<Answer> solve_with_coin(const Program& program, Allowance& allowance);

std::string coin_version();

}  // namespace lowtide::solver
