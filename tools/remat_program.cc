#include "tools/remat_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "remat/bounds/bound_program.h"
#include "remat/bounds/time_bound.h"
#include "solver/highs_library.h"
#include "solver/program_text.h"
#include "tools/flags.h"

namespace lowtide::tools {
namespace {

const char* flag_of(const ProgramFlags& flags) {
  return flags.file.empty() ? "--solve" : "--program";
}

// In numbers that suit the tolerances of solvers, which are of 1e-6 and 1e-7 whatever the numbers
// are: sums of times in thousands, rows of bytes near one (by a power of two, which is exact).
solver::Program scaled(solver::Program program, double once_seconds) {
  const double units_per_second = SolvedProgram::kUnitsOfStep / once_seconds;
  program.constant *= units_per_second;
  for (solver::Column& column : program.columns) column.cost *= units_per_second;
  for (solver::Row& row : program.rows) {
    double largest = 1;
    for (const solver::Entry& entry : row.entries)
      largest = std::max(largest, std::abs(entry.value));
    const double part = std::exp2(-std::floor(std::log2(largest)));
    row.lower *= part;
    row.upper *= part;
    for (solver::Entry& entry : row.entries) entry.value *= part;
  }
  return program;
}

Result<SolvedProgram> solve(const ProgramFlags& flags, const solver::Program& in_seconds,
                            double once_seconds, const Limits& limits) {
  solver::Program program = scaled(in_seconds, once_seconds);
  SolvedProgram solved;
  solved.solver = flags.solver;
  solved.rows = program.rows.size();
  solved.columns = program.columns.size();
  solved.once_seconds = once_seconds;
  if (flags.solver == "clp")
    for (solver::Column& column : program.columns) column.integer = false;
  solver::Options options;
  options.solver = flags.solver == "highs" ? solver::Solver::kHighs : solver::Solver::kCoin;
  options.limits = limits.with_units(units_in(flags.solver_seconds));
  const auto start = Clock::now();
  LT_ASSIGN(solved.outcome, solver::solve(program, options));
  solved.seconds = seconds_since(start);
  return solved;
}

std::string shown(const SolvedProgram& solved, double seconds) {
  return fmt::format("{:.6f} s ({:.2f} % extra)", seconds,
                     100 * (seconds / solved.once_seconds - 1));
}

}  // namespace

void add_program_flags(CLI::App* command, ProgramFlags& flags) {
  command
      ->add_option("--program", flags.file,
                   "write the integer program behind the bound here: LP, or MPS as FILE.mps")
      ->check(file_name());
  CLI::Option* solver =
      command
          ->add_option("--solve", flags.solver,
                       "solve that program, too: its relaxation by clp, in whole numbers by cbc "
                       "or highs")
          ->type_name("SOLVER")
          ->check(one_of({"clp", "cbc", "highs"}));
  command
      ->add_option("--solve-for", flags.solver_seconds,
                   "limit of --solve: as many iterations as about so many seconds of one core make")
      ->type_name("SECONDS")
      ->check(real_number({.above = true}))
      ->needs(solver);
}

Result<std::optional<SolvedProgram>> take_program(const ProgramFlags& flags,
                                                  plan::ScheduleProblem problem,
                                                  const Limits& limits) {
  if (!flags.any()) return std::nullopt;
  if (problem.link && flags.has_transfers)
    return error(ErrorCode::kUsage,
                 fmt::format("{}: it is of problems without a link; add --without transfers",
                             flag_of(flags)));
  if (flags.solver == "highs") LT_RETURN_IF_ERROR(solver::load_highs());
  plan::forbid_transfers(problem);
  const remat::TimeBound bound = remat::time_bound(problem);
  auto program = remat::bound_program(problem, bound);
  if (!program)
    return error(ErrorCode::kInput, fmt::format("{}: nothing is proven of {} beyond each op once",
                                                flag_of(flags), flags.problem));
  if (!flags.file.empty())
    LT_RETURN_IF_ERROR(write_file_atomically(flags.file, flags.file.ends_with(".mps")
                                                             ? solver::write_mps(*program)
                                                             : solver::write_lp(*program)));
  if (flags.solver.empty()) return std::nullopt;
  double once_seconds = 0;
  for (const plan::SchedOp& op : problem.ops) once_seconds += op.seconds;
  LT_ASSIGN(SolvedProgram solved, solve(flags, *program, once_seconds, limits));
  solved.own_bound_seconds = bound.lower_bound_seconds;
  return solved;
}

nlohmann::ordered_json as_json(const SolvedProgram& solved) {
  const solver::Outcome& outcome = solved.outcome;
  nlohmann::ordered_json out;
  out["solver"] = solved.solver;
  out["version"] = outcome.solver;
  out["status"] = solver::name(outcome.status);
  out["rows"] = solved.rows;
  out["columns"] = solved.columns;
  out["own_bound_cost"] = solved.own_bound_seconds;
  if (std::isfinite(outcome.bound)) out["bound_cost"] = solved.seconds_at(outcome.bound);
  if (outcome.objective) out["incumbent_cost"] = solved.seconds_at(*outcome.objective);
  out["point_refused"] = outcome.rejected;
  out["iterations"] = outcome.iterations;
  out["nodes"] = outcome.nodes;
  out["seconds"] = solved.seconds;
  out["cut_short"] = outcome.cut_short;
  return out;
}

std::string as_text(const SolvedProgram& solved) {
  const solver::Outcome& outcome = solved.outcome;
  std::string text = fmt::format("{}: {}", solved.solver, solver::name(outcome.status));
  if (std::isfinite(outcome.bound))
    text += fmt::format(", at least {}", shown(solved, solved.seconds_at(outcome.bound)));
  if (outcome.objective)
    text += fmt::format(", its point {}", shown(solved, solved.seconds_at(*outcome.objective)));
  if (outcome.rejected) text += ", a point of it refused";
  text += fmt::format("; our bound {}; {} rows, {} columns, {} iterations, {} nodes, {:.3f} s{}\n",
                      shown(solved, solved.own_bound_seconds), solved.rows, solved.columns,
                      outcome.iterations, outcome.nodes, solved.seconds,
                      outcome.cut_short ? ", cut short" : "");
  return text;
}

}  // namespace lowtide::tools
