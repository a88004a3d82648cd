// A program as text that other solvers read: the LP format (as CPLEX has it, and its readers agree
// on) and free MPS. For a second opinion, and for reports of mistakes.
//
// Names are made legal in both formats and unique: letters, digits, '_' and '.', not like a number
// or a keyword. Numbers have as many digits as it takes to read the same ones back. A row with two
// sides that differ is two rows, as a range has no exact form in MPS; one with none is left out.
// The constant of the LP format is the cost of one more column, always 1, as not all its readers
// know constants.
#pragma once

#include <string>

#include "solver/program.h"

namespace lowtide::solver {

// `program.check()` holds.
std::string write_lp(const Program& program);
std::string write_mps(const Program& program);

}  // namespace lowtide::solver
