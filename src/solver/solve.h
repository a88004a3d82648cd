// Solves a linear or mixed-integer program: COIN-OR's Clp and CBC, or HiGHS where its library is
// found (solver/highs_library.h).
//
// What comes back is checked against the program's own data, whichever solver said it: a point is
// handed out only if it holds (solver/program.h), its whole numbers exactly whole; the bound of a
// linear program is computed anew from its multipliers. The bound of an integer program is the
// solver's word, in floating point: who needs proof keeps the cases and adds them up, as
// remat/bounds/branch_cut.h does.
//
// One thread, fixed seeds. Limits count work, so that the same program and options give the same
// outcome each time; the clock and the flag are safety stops, and the outcome says if one acted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "solver/program.h"

namespace lowtide::solver {

enum class Solver {
  kAutomatic,  // HiGHS where it is found, else the other
  kCoin,       // Clp for linear programs, CBC for integer ones
  kHighs,
};

enum class SolveStatus {
  kOptimal,     // a point whose value is the bound, but for rounding
  kFeasible,    // a point within the gap that was asked for
  kInfeasible,  // there is no point
  kUnbounded,   // there are points of any value
  kLimit,       // a limit ended the search; there may or may not be a point
};

// "optimal", "feasible", "infeasible", "unbounded", "limit".
std::string_view name(SolveStatus status);

inline constexpr double kAbsoluteGap = 1e-6;

struct Options {
  Solver solver = Solver::kAutomatic;
  Limits limits{.max_units = 200'000'000'000};
  int64_t max_nodes = 10'000'000;  // of the branch and bound tree
  // Where to stop: the point is worth at most that share of itself more than the bound, or
  // kAbsoluteGap.
  double relative_gap = 0;
  // A point to start from, by column; empty: none. One that does not hold is not used. The
  // outcome's point is never worse.
  std::vector<double> start{};
};

struct Outcome {
  SolveStatus status = SolveStatus::kLimit;
  double bound = -kInfinity;  // no point is worth less; infinity if there is none
  std::optional<double> objective;
  std::vector<double> point;  // where there is an objective
  // Of a linear program that has an optimum: by row, and by column.
  std::vector<double> duals, reduced_costs;
  int64_t iterations = 0, nodes = 0;
  bool cut_short = false;  // by the clock or the flag
  bool rejected = false;   // the solver named a point that did not hold
  std::string solver;      // name and version
};

// An error: a malformed program, options that make no sense, HiGHS asked for and not found, a
// solver that gave up.
Result<Outcome> solve(const Program& program, const Options& options = {});

}  // namespace lowtide::solver
