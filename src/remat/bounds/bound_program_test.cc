// The integer program behind a bound: its optimum, by branch and cut (CBC), lies between what the
// multipliers prove and the best schedule of all (the oracle).
#include "remat/bounds/bound_program.h"

#include <gtest/gtest.h>

#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/bounds/testing/remat_oracle.h"
#include "solver/solve.h"

namespace lowtide::remat {
namespace {

TEST(BoundProgram, ItsOptimumLiesBetweenTheBoundAndTheBestSchedule) {
  Rng rng(5);
  int compared = 0, above = 0;
  for (int i = 0; i < 1200; ++i) {
    const plan::RandomSchedule shape{
        .min_ops = 4, .max_ops = 8, .reader_rate = 0.3, .rerun_rate = 1};
    plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    problem.budget_bytes = some_budget(problem, rng);
    const TimeBound bound = time_bound(problem);
    if (!bound.feasible) continue;
    const auto program = bound_program(problem, bound);
    if (!program) continue;
    ASSERT_TRUE(program->check().has_value()) << program->check().error().message;
    const auto best = solver::solve(*program, {.solver = solver::Solver::kCoin});
    ASSERT_TRUE(best.has_value()) << best.error().message;
    ASSERT_EQ(best->status, solver::SolveStatus::kOptimal) << "problem " << i;
    double once = 0;
    for (const plan::SchedOp& op : problem.ops) once += op.seconds;
    const double proven = bound.lower_bound_seconds - once;
    EXPECT_GE(*best->objective, proven - 1e-6 * once) << "problem " << i;
    above += *best->objective > proven + 1e-6 * once;
    RematOracle oracle(problem);
    const auto exact = oracle.fastest();
    if (!exact || !oracle.complete()) continue;
    EXPECT_LE(*best->objective, exact->seconds - once + 1e-6 * once) << "problem " << i;
    ++compared;
  }
  EXPECT_GT(compared, 40);
  EXPECT_GT(above, 5) << "the program knows more than its relaxation";
}

TEST(BoundProgram, IsThereOnlyWhereSomethingIsProven) {
  Rng rng(1);
  plan::ScheduleProblem problem = plan::random_schedule_problem({.min_ops = 5, .max_ops = 5}, rng);
  problem.budget_bytes = int64_t{1} << 40;
  EXPECT_FALSE(bound_program(problem, time_bound(problem)).has_value());
}

}  // namespace
}  // namespace lowtide::remat
