#include "solver/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "solver/coin.h"
#include "solver/highs.h"
#include "solver/relaxation.h"

namespace lowtide::solver {
namespace {

using End = Answer::End;

struct Engine {
  std::string name;
  std::function<Result<Answer>(const Program&, Allowance&)> solve;
};

Result<Engine> engine_of(Solver solver) {
  if (solver != Solver::kCoin) {
    auto library = load_highs();
    if (library)
      return Engine{"HiGHS " + library->version,
                    [highs = *library](const Program& program, Allowance& allowance) {
                      return solve_with_highs(highs, program, allowance);
                    }};
    if (solver == Solver::kHighs) return tl::unexpected(library.error());
  }
  return Engine{coin_version(), solve_with_coin};
}

Status check(const Program& program, const Options& options) {
  LT_RETURN_IF_ERROR(program.check());
  const auto refuse = [](const std::string& what) { return error(ErrorCode::kUsage, what); };
  if (!options.start.empty() && options.start.size() != program.columns.size())
    return refuse(fmt::format("the point to start from has {} values, the program {} columns",
                              options.start.size(), program.columns.size()));
  if (!(options.relative_gap >= 0))
    return refuse(
        fmt::format("the relative gap is {}; it has to be 0 or more", options.relative_gap));
  if (options.limits.max_units < 0 || options.max_nodes < 0)
    return refuse(
        fmt::format("the limits are {} units of work and {} nodes; they have to be 0 or more",
                    options.limits.max_units, options.max_nodes));
  return {};
}

// Columns that no row joins: each by itself. Solvers take such programs for mistakes.
Answer solve_without_rows(const Program& program) {
  Answer answer;
  answer.end = End::kDone;
  for (const Column& column : program.columns) {
    const double lower = column.integer ? std::ceil(column.lower) : column.lower;
    const double upper = column.integer ? std::floor(column.upper) : column.upper;
    if (lower > upper) {
      answer.end = End::kInfeasible;
      return answer;
    }
    double x = column.cost > 0 ? lower : column.cost < 0 ? upper : std::clamp(0.0, lower, upper);
    if (std::isinf(x)) answer.end = End::kUnbounded, x = std::clamp(0.0, lower, upper);
    answer.point.push_back(x);
    answer.reduced_costs.push_back(column.cost);
  }
  answer.has_point = true;
  answer.bound = evaluate(program, answer.point).objective;
  return answer;
}

bool is_trivial(const Program& program) {
  return std::all_of(program.rows.begin(), program.rows.end(),
                     [](const Row& row) { return row.entries.empty(); });
}

Result<Answer> solve_trivial(const Program& program, Allowance& /*allowance*/) {
  for (const Row& row : program.rows)
    if (row.lower > kTolerance || row.upper < -kTolerance) return Answer{.end = End::kInfeasible};
  Answer answer = solve_without_rows(program);
  answer.duals.assign(program.rows.size(), 0);
  return answer;
}

// Where the relaxation has no end or no point, any point decides: with one, there are points of any
// value (the data being rational), also in whole numbers; without, there is none.
Result<Answer> resolve_unbounded(const Engine& engine, const Program& program,
                                 Allowance& allowance) {
  Program any = program;
  for (Column& column : any.columns) column.cost = 0;
  LT_ASSIGN(Answer answer, engine.solve(any, allowance));
  answer.bound = -kInfinity;
  answer.duals.clear(), answer.reduced_costs.clear();
  if (answer.end == End::kUnbounded) answer.end = End::kInfeasible;  // costs have an end
  if (answer.has_point) answer.end = End::kUnbounded;
  return answer;
}

bool near(double value, double bound, double scale) {
  return value - bound <= kTolerance * std::max(1.0, std::abs(scale));
}

void offer(const Program& program, const std::vector<double>& point, Outcome& outcome) {
  const double objective = evaluate(program, point).objective;
  if (outcome.objective && *outcome.objective <= objective) return;
  outcome.objective = objective;
  outcome.point = point;
}

SolveStatus status_of(const Outcome& outcome, End end, const Options& options) {
  if (end == End::kInfeasible && !outcome.objective) return SolveStatus::kInfeasible;
  if (end == End::kUnbounded && outcome.objective) return SolveStatus::kUnbounded;
  if (!outcome.objective) return SolveStatus::kLimit;
  const double value = *outcome.objective;
  if (near(value, outcome.bound, value)) return SolveStatus::kOptimal;
  const double gap = std::max(kAbsoluteGap, options.relative_gap * std::abs(value));
  const bool within = near(value, outcome.bound + gap, value);
  return within ? SolveStatus::kFeasible : SolveStatus::kLimit;
}

Outcome outcome_of(const Program& program, const Options& options, Allowance& allowance,
                   Answer answer) {
  Outcome outcome;
  if (answer.has_point) {
    const auto point = made_whole(program, answer.point, allowance.work);
    if (point) offer(program, *point, outcome);
    outcome.rejected = !point;
  }
  if (!allowance.start.empty()) offer(program, allowance.start, outcome);
  outcome.bound = answer.bound;
  if (!program.has_integers() && answer.duals.size() == program.rows.size()) {
    if (answer.end != End::kUnbounded) outcome.bound = lagrangian_bound(program, answer.duals);
    if (answer.end == End::kDone) {
      outcome.duals = std::move(answer.duals);
      outcome.reduced_costs = std::move(answer.reduced_costs);
    }
  }
  outcome.status = status_of(outcome, answer.end, options);
  if (outcome.status == SolveStatus::kInfeasible) outcome.bound = kInfinity;
  if (outcome.status == SolveStatus::kUnbounded) outcome.bound = -kInfinity;
  // Within rounding; no bound is above a point.
  if (outcome.objective) outcome.bound = std::min(outcome.bound, *outcome.objective);
  outcome.nodes = answer.nodes;
  return outcome;
}

}  // namespace

std::string_view name(SolveStatus status) {
  switch (status) {
    case SolveStatus::kOptimal:
      return "optimal";
    case SolveStatus::kFeasible:
      return "feasible";
    case SolveStatus::kInfeasible:
      return "infeasible";
    case SolveStatus::kUnbounded:
      return "unbounded";
    case SolveStatus::kLimit:
      return "limit";
  }
  return "?";
}

Result<Outcome> solve(const Program& program, const Options& options) {
  LT_RETURN_IF_ERROR(check(program, options));
  LT_ASSIGN(Engine engine, engine_of(options.solver));
  if (is_trivial(program)) engine.solve = solve_trivial;
  WorkBudget work(options.limits, units_per_iteration(program));
  Allowance allowance{work, options.max_nodes, kAbsoluteGap, options.relative_gap, {}};
  if (!options.start.empty()) {
    if (auto start = made_whole(program, options.start, work)) allowance.start = std::move(*start);
  }
  LT_ASSIGN(Answer answer, engine.solve(program, allowance));
  if (answer.end == End::kUnbounded && !is_trivial(program)) {
    LT_ASSIGN(answer, resolve_unbounded(engine, program, allowance));
  }
  Outcome outcome = outcome_of(program, options, allowance, std::move(answer));
  outcome.iterations = work.steps_used();
  outcome.cut_short = work.timed_out();
  outcome.solver = std::move(engine.name);
  return outcome;
}

}  // namespace lowtide::solver
