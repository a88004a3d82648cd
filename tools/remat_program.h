// `remat --program` and `remat --solve`: the integer program behind the bound
// (remat/bounds/bound_program.h), as a file for other solvers, and answered by one of ours as a
// second opinion.
//
// Tests: tests/python/test_remat.py.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "plan/schedule_problem.h"
#include "solver/solve.h"

namespace lowtide::tools {

struct ProgramFlags {
  std::string file;            // --program
  std::string solver;          // --solve: "clp", "cbc" or "highs"
  double solver_seconds = 60;  // --solve-for, of one core
  std::string problem;         // the problem's file, for messages
  bool has_transfers = true;   // they are not switched off
  bool any() const { return !file.empty() || !solver.empty(); }
};

void add_program_flags(CLI::App* command, ProgramFlags& flags);

// A solver's answer. Clp solves the relaxation: what it says of the point is none of a schedule.
struct SolvedProgram {
  std::string solver;
  size_t rows = 0, columns = 0;
  double once_seconds = 0;
  double own_bound_seconds = 0;  // what the cuts prove that the program is made of
  solver::Outcome outcome;       // in parts of each op once, beyond that
  double seconds = 0;            // wall time

  static constexpr double kUnitsOfStep = 1e5;
  double seconds_at(double units) const { return once_seconds * (1 + units / kUnitsOfStep); }
};

// Writes and solves as the flags say. Of `limits` the safety stops count. Nothing: not to be
// solved.
Result<std::optional<SolvedProgram>> take_program(const ProgramFlags& flags,
                                                  plan::ScheduleProblem problem,
                                                  const Limits& limits);

nlohmann::ordered_json as_json(const SolvedProgram& solved);
std::string as_text(const SolvedProgram& solved);

}  // namespace lowtide::tools
