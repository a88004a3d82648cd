// Programs as data: what is malformed, what a point is worth, what multipliers prove.
#include "solver/program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "solver/testing/random_programs.h"

namespace lowtide::solver {
namespace {

// minimise 3 + 2x - y, x whole, such that 1 <= x + 2y <= 4 and 0 <= x <= 3, y <= 5.
Program small_program() {
  Program program;
  program.constant = 3;
  program.columns = {{.name = "x", .upper = 3, .cost = 2, .integer = true},
                     {.name = "y", .lower = -kInfinity, .upper = 5, .cost = -1}};
  program.rows = {{.name = "room", .lower = 1, .upper = 4, .entries = {{0, 1}, {1, 2}}}};
  return program;
}

std::string complaint(const Program& program) {
  const Status status = program.check();
  return status ? "" : status.error().message;
}

TEST(Program, IsWellFormed) {
  EXPECT_EQ(complaint(small_program()), "");
  EXPECT_EQ(complaint(Program{}), "");
  EXPECT_TRUE(small_program().has_integers());
}

TEST(Program, NamesWhatIsMalformed) {
  Program program = small_program();
  program.columns[0].lower = 4;
  EXPECT_EQ(complaint(program), "program: column 0 'x': its lower bound 4 is above its upper 3");
  program = small_program();
  program.columns[1].cost = std::nan("");
  EXPECT_EQ(complaint(program), "program: column 1 'y': its cost is nan");
  program = small_program();
  program.columns[1].name = "";
  program.columns[1].lower = kInfinity;
  EXPECT_EQ(complaint(program),
            "program: column 1: its lower bound is inf, and has to be below 1e+20, or -infinity");
  program = small_program();
  program.rows[0].upper = std::nan("");
  EXPECT_EQ(
      complaint(program),
      "program: row 0 'room': its upper bound is nan, and has to be below 1e+20, or infinity");
  program = small_program();
  program.rows[0].entries.push_back({2, 1});
  EXPECT_EQ(complaint(program),
            "program: row 0 'room': it has an entry of column 2, and there are 2");
  program.rows[0].entries.back() = {1, 1};
  EXPECT_EQ(complaint(program), "program: row 0 'room': it has column 1 twice");
  program.rows[0].entries = {{0, 1e21}};
  EXPECT_EQ(complaint(program), "program: row 0 'room': its entry of column 0 is 1e+21");
  program = small_program();
  program.constant = kInfinity;
  EXPECT_EQ(complaint(program), "program: constant: it is inf");
}

TEST(Evaluation, MeasuresAPoint) {
  const Program program = small_program();
  const Evaluation good = evaluate(program, std::vector<double>{2, 1});
  EXPECT_EQ(good.objective, 6);
  EXPECT_EQ(good.activities, std::vector<double>{4});
  EXPECT_TRUE(good.holds(0));
  const Evaluation half = evaluate(program, std::vector<double>{0.5, 1});
  EXPECT_EQ(half.worst_fraction, 0.5);
  EXPECT_EQ(half.worst_violation, 0);
  EXPECT_FALSE(half.holds(1e-6));
  const Evaluation high = evaluate(program, std::vector<double>{3, 3});
  EXPECT_EQ(high.worst_violation, 5.0 / 6);  // 9 instead of 4; the largest term is 6
  const Evaluation outside = evaluate(program, std::vector<double>{6, -2});
  EXPECT_EQ(outside.worst_violation, 1);  // 6 instead of 3
  EXPECT_FALSE(evaluate(program, std::vector<double>{1, std::nan("")}).holds(1));
  EXPECT_FALSE(evaluate(program, std::vector<double>{1, -kInfinity}).holds(1e300));
}

TEST(LagrangianBound, IsWhatMultipliersProve) {
  const Program program = small_program();
  // -0.5 of the row: 3 - 0.5 * 4 + least of 2.5 x + 0 y = 1, at (0, 2).
  EXPECT_EQ(lagrangian_bound(program, std::vector<double>{-0.5}), 1);
  // y costs 1 and has no lower bound.
  EXPECT_EQ(lagrangian_bound(program, std::vector<double>{-1}), -kInfinity);
  EXPECT_EQ(lagrangian_bound(program, std::vector<double>{std::nan("")}), -kInfinity);
}

TEST(LagrangianBound, IsBelowEveryPoint) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const Program program = random_program({.max_columns = 6}, rng);
    std::vector<double> duals;
    for (size_t r = 0; r < program.rows.size(); ++r)
      duals.push_back(static_cast<double>(rng.between(-20, 20)) / 8);
    const auto best = best_of_all_points(program);
    EXPECT_LE(lagrangian_bound(program, duals), best.value_or(kInfinity)) << "case " << i;
  }
}

}  // namespace
}  // namespace lowtide::solver
