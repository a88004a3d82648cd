#include "solver/relaxation.h"

#include <algorithm>
#include <cmath>

namespace lowtide::solver {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct RepairTuning {
  int64_t most_iterations = 20'000;  // to find the best values of what need not be whole
};
constexpr RepairTuning kRepair;

std::vector<double> copy_of(std::span<const double> values) {
  return {values.begin(), values.end()};
}

SimplexEnd run_within(DualSimplex& simplex, WorkBudget& work) {
  if (!work.look()) return SimplexEnd::kStopped;
  const DualSimplex::Run run = simplex.run(work.left());
  work.spend(run.iterations);
  work.look();
  return run.end;
}

}  // namespace

Result<Relaxation> solve_relaxation(const Program& program, WorkBudget& work) {
  DualSimplex simplex(program);
  Relaxation result;
  Answer& answer = result.answer;
  const SimplexEnd end = run_within(simplex, work);
  switch (end) {
    case SimplexEnd::kFailed:
      return error(ErrorCode::kInternal, "Clp gave up on a linear program: its numbers");
    case SimplexEnd::kInfeasible:
      answer.end = Answer::End::kInfeasible;
      return result;
    case SimplexEnd::kUnbounded:
      answer.end = Answer::End::kUnbounded;
      return result;
    case SimplexEnd::kOptimal:
      answer.end = Answer::End::kDone;
      answer.has_point = true;
      answer.point = copy_of(simplex.point());
      answer.reduced_costs = copy_of(simplex.reduced_costs());
      result.basis = simplex.basis();
      break;
    case SimplexEnd::kStopped:
      break;
  }
  answer.duals = copy_of(simplex.duals());
  answer.bound = lagrangian_bound(program, answer.duals);
  return result;
}

std::optional<std::vector<double>> made_whole(const Program& program, std::vector<double> point,
                                              WorkBudget& work) {
  for (size_t j = 0; j < point.size(); ++j) {
    const Column& column = program.columns[j];
    const double lower = column.integer ? std::ceil(column.lower) : column.lower;
    const double upper = column.integer ? std::floor(column.upper) : column.upper;
    if (!std::isfinite(point[j]) || lower > upper) return std::nullopt;
    if (column.integer) point[j] = std::round(point[j]);
    point[j] = std::clamp(point[j], lower, upper) + 0.0;  // no -0
  }
  if (evaluate(program, point).holds(kTolerance)) return point;
  if (!program.has_integers()) return std::nullopt;
  DualSimplex simplex(program);
  for (size_t j = 0; j < point.size(); ++j)
    if (program.columns[j].integer) simplex.set_bounds(j, point[j], point[j]);
  // Also when the work is spent: it is what makes a point of what was found.
  const DualSimplex::Run run =
      simplex.run(work.left().with_units(kRepair.most_iterations * simplex.units_per_iteration()));
  work.spend(run.iterations);
  for (size_t j = 0; j < point.size(); ++j) {
    const Column& column = program.columns[j];
    if (!column.integer)
      point[j] = std::clamp(simplex.point()[j], column.lower, column.upper) + 0.0;
  }
  if (run.end == SimplexEnd::kOptimal && evaluate(program, point).holds(kTolerance)) return point;
  return std::nullopt;
}

}  // namespace lowtide::solver
