// The relaxation of a program, solved by solver/dual_simplex.h within an allowance; and integer
// values of a point made exactly whole.
//
// Tests: dual_simplex_test.cc.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "solver/answer.h"
#include "solver/dual_simplex.h"

namespace lowtide::solver {

struct Relaxation {
  Answer answer;
  DualSimplex::Basis basis;
};

// Of the program with its columns taken for continuous.
Result<Relaxation> solve_relaxation(const Program& program, WorkBudget& work);

// The point with every integer column at its nearest whole number, and every column within its
// bounds; where rows do not hold then, with the best values of the other columns. Nothing: it does
// not hold.
std::optional<std::vector<double>> made_whole(const Program& program, std::vector<double> point,
                                              WorkBudget& work);

}  // namespace lowtide::solver
