// The dual simplex method against what follows from the data alone: its point holds and its
// multipliers prove that none is better; a ray proves that there is none; a basis brings back what
// was, whatever was solved meanwhile.
#include "solver/dual_simplex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "solver/testing/random_programs.h"

namespace lowtide::solver {
namespace {

constexpr Limits kEnough = {.max_units = 200'000'000};
constexpr double kNear = 1e-7;

// Do multiples of the ray, of one sign or the other, prove more than any point can be worth?
bool proves_infeasible(Program program, const std::vector<double>& ray) {
  program.constant = 0;
  for (Column& column : program.columns) column.cost = 0;
  std::vector<double> other = ray;
  for (double& y : other) y = -y;
  return !ray.empty() &&
         std::max(lagrangian_bound(program, ray), lagrangian_bound(program, other)) > 0;
}

// The end of a run, with what it claims recomputed.
SimplexEnd checked_run(const Program& program, DualSimplex& simplex, int seed) {
  const SimplexEnd end = simplex.run(kEnough).end;
  if (end == SimplexEnd::kOptimal) {
    const Evaluation at = evaluate(program, simplex.point());
    EXPECT_LE(at.worst_violation, kNear) << seed;
    EXPECT_NEAR(at.objective, simplex.objective(), kNear) << seed;
    EXPECT_NEAR(lagrangian_bound(program, simplex.duals()), at.objective, kNear) << seed;
  } else {
    EXPECT_EQ(end, SimplexEnd::kInfeasible) << seed;
    EXPECT_TRUE(proves_infeasible(program, simplex.infeasibility_ray())) << seed;
  }
  return end;
}

TEST(DualSimplex, ProvesWhatItFinds) {
  int optimal = 0, infeasible = 0;
  for (int seed = 0; seed < 500; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const Program program = random_program({.integer = false, .upper = 4}, rng);
    DualSimplex simplex(program);
    (checked_run(program, simplex, seed) == SimplexEnd::kOptimal ? optimal : infeasible)++;
  }
  EXPECT_GT(optimal, 100);
  EXPECT_GT(infeasible, 50);
}

TEST(DualSimplex, ReducedCostsAreOfTheMultipliers) {
  for (int seed = 0; seed < 100; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const Program program = random_program({.integer = false, .upper = 3}, rng);
    DualSimplex simplex(program);
    if (simplex.run(kEnough).end != SimplexEnd::kOptimal) continue;
    std::vector<double> reduced;
    for (const Column& column : program.columns) reduced.push_back(column.cost);
    for (size_t r = 0; r < program.rows.size(); ++r)
      for (const Entry& e : program.rows[r].entries)
        reduced[e.column] -= simplex.duals()[r] * e.value;
    for (size_t j = 0; j < reduced.size(); ++j)
      EXPECT_NEAR(simplex.reduced_costs()[j], reduced[j], kNear) << seed;
  }
}

// Random walks down a tree and back up, as branch and bound does.
TEST(DualSimplex, GoesOnWhenBoundsChange) {
  for (int seed = 0; seed < 100; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    Program program = random_program({.max_columns = 12, .max_rows = 9}, rng);
    DualSimplex simplex(program);
    checked_run(program, simplex, seed);
    const DualSimplex::Basis root = simplex.basis();
    for (int step = 0; step < 8; ++step) {
      const size_t j = rng.below(program.columns.size());
      const auto value = static_cast<double>(rng.below(2));
      const bool free = rng.below(3) == 0;
      program.columns[j].lower = free ? 0 : value;
      program.columns[j].upper = free ? 1 : value;
      simplex.set_bounds(j, program.columns[j].lower, program.columns[j].upper);
      if (rng.below(2)) simplex.set_basis(root);
      checked_run(program, simplex, seed);
    }
  }
}

// A transport of 30 goods to 30 places takes many iterations.
Program transport() {
  constexpr uint32_t kPlaces = 30;
  Rng rng(7);
  Program program;
  program.rows.resize(2 * size_t{kPlaces});
  for (Row& row : program.rows) row.lower = row.upper = 1;
  for (uint32_t i = 0; i < kPlaces; ++i)
    for (uint32_t k = 0; k < kPlaces; ++k) {
      const auto column = static_cast<uint32_t>(program.columns.size());
      program.columns.push_back({.cost = static_cast<double>(rng.between(1, 1000))});
      program.rows[i].entries.push_back({column, 1});
      program.rows[kPlaces + k].entries.push_back({column, 1});
    }
  return program;
}

TEST(DualSimplex, StopsWhenItsWorkIsDoneAndGoesOn) {
  const Program program = transport();
  DualSimplex whole(program), parts(program);
  ASSERT_EQ(whole.run(kEnough).end, SimplexEnd::kOptimal);
  const DualSimplex::Run first = parts.run({.max_units = 10 * parts.units_per_iteration()});
  EXPECT_EQ(first.end, SimplexEnd::kStopped);
  EXPECT_LE(first.iterations, 10);
  EXPECT_LE(lagrangian_bound(program, parts.duals()), whole.objective() + kNear);
  EXPECT_EQ(parts.run(kEnough).end, SimplexEnd::kOptimal);
  EXPECT_NEAR(parts.objective(), whole.objective(), kNear);
  EXPECT_EQ(whole.objective(), std::round(whole.objective()));
}

TEST(DualSimplex, WithLessThanAnIterationsWorkDoesNothing) {
  const Program program = transport();
  DualSimplex simplex(program);
  const DualSimplex::Run none = simplex.run({.max_units = simplex.units_per_iteration() - 1});
  EXPECT_EQ(none.end, SimplexEnd::kStopped);
  EXPECT_EQ(none.iterations, 0);
  EXPECT_EQ(simplex.run(kEnough).end, SimplexEnd::kOptimal);
}

// More iterations than pass between two looks at the flag.
Program large_cover() {
  constexpr uint32_t kSize = 6000;
  Rng rng(8);
  Program program;
  for (uint32_t j = 0; j < kSize; ++j)
    program.columns.push_back({.cost = static_cast<double>(rng.between(1, 1000))});
  for (uint32_t r = 0; r < kSize; ++r) {
    Row& row = program.rows.emplace_back();
    row.lower = static_cast<double>(rng.between(1, 100));
    for (uint32_t k = 0; k < 20; ++k)
      row.entries.push_back({(r + 73 * k) % kSize, static_cast<double>(rng.between(1, 9))});
  }
  return program;
}

TEST(DualSimplex, StopsSoonAfterTheFlagIsRaised) {
  const Program program = large_cover();
  const std::atomic<bool> cancel = true;
  DualSimplex stopped(program), whole(program);
  const DualSimplex::Run first = stopped.run({.cancel = &cancel});
  EXPECT_EQ(first.end, SimplexEnd::kStopped);
  EXPECT_GT(first.iterations, 0);
  EXPECT_LE(first.iterations, 1000);
  const DualSimplex::Run all = whole.run(kEnough);
  EXPECT_EQ(all.end, SimplexEnd::kOptimal);
  EXPECT_GT(all.iterations, 1000);
}

TEST(DualSimplex, NoticesThatNothingHoldsItBack) {
  Program program;
  program.columns = {{.cost = -1}, {.cost = 1}};
  program.rows = {{.upper = 1, .entries = {{0, 1}, {1, -1}}}};
  program.columns[1].cost = 0.5;
  DualSimplex simplex(program);
  EXPECT_EQ(simplex.run(kEnough).end, SimplexEnd::kUnbounded);
}

TEST(DualSimplex, HasNoBasisBeforeItRan) {
  const Program program = transport();
  DualSimplex simplex(program);
  simplex.set_basis({});
  EXPECT_EQ(simplex.run(kEnough).end, SimplexEnd::kOptimal);
  EXPECT_EQ(simplex.basis().size(), program.columns.size() + program.rows.size());
}

}  // namespace
}  // namespace lowtide::solver
