// Every solver against all points of small programs, and against what follows from the data alone;
// then the ends that a search can come to. Tests of HiGHS are skipped where its library is absent.
#include "solver/solve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "solver/highs_library.h"
#include "solver/testing/random_programs.h"
#include "solver/testing/test_library.h"
#include "support/long_checks.h"

#ifdef __SANITIZE_ADDRESS__
// CoinUtils 2.11 loses some bytes of its presolve (implied_free_action, presolve_dupmajor).
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libCoinUtils\n";
}
#endif

namespace lowtide::solver {
namespace {

constexpr double kClose = 1e-5;
constexpr double kNone = 1e9;  // above every objective here

// minimise -10a - 6b - 4c such that a + b + c <= 100 and so on; whole numbers: -732.
Program three_goods(bool integer) {
  Program program;
  program.columns = {{.name = "a", .cost = -10, .integer = integer},
                     {.name = "b", .cost = -6, .integer = integer},
                     {.name = "c", .cost = -4, .integer = integer}};
  program.rows = {{.name = "all", .upper = 100, .entries = {{0, 1}, {1, 1}, {2, 1}}},
                  {.name = "work", .upper = 600, .entries = {{0, 10}, {1, 4}, {2, 5}}},
                  {.name = "store", .upper = 300, .entries = {{0, 2}, {1, 2}, {2, 6}}}};
  return program;
}

// Several knapsacks at once, of which branch and bound needs many nodes.
Program knapsacks(uint32_t columns, int rows, Rng rng = Rng(11)) {
  Program program;
  for (uint32_t j = 0; j < columns; ++j)
    program.columns.push_back(
        {.upper = 1, .cost = -static_cast<double>(rng.between(500, 1000)), .integer = true});
  for (int r = 0; r < rows; ++r) {
    Row& row = program.rows.emplace_back();
    double sum = 0;
    for (uint32_t j = 0; j < columns; ++j) {
      row.entries.push_back({j, static_cast<double>(rng.between(1, 1000))});
      sum += row.entries.back().value;
    }
    row.upper = std::floor(sum / 2);
  }
  return program;
}

// What every outcome has to keep, whatever happened.
void check_outcome(const Program& program, const Outcome& outcome) {
  EXPECT_FALSE(outcome.rejected);
  EXPECT_EQ(outcome.objective.has_value(), !outcome.point.empty() || program.columns.empty());
  if (outcome.objective) {
    const Evaluation at = evaluate(program, outcome.point);
    EXPECT_TRUE(at.holds(kTolerance));
    EXPECT_EQ(at.objective, *outcome.objective);
    EXPECT_EQ(at.worst_fraction, 0);
    EXPECT_LE(outcome.bound, *outcome.objective);
  }
}

class EverySolver : public testing::TestWithParam<Solver> {
 protected:
  void SetUp() override {
    name_test_library();
    if (GetParam() == Solver::kHighs && !load_highs()) GTEST_SKIP() << load_highs().error().message;
  }

  Outcome solved(const Program& program, Options options = {}) {
    options.solver = GetParam();
    const Result<Outcome> outcome = solve(program, options);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().message;
      return {};
    }
    check_outcome(program, *outcome);
    return *outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(, EverySolver, testing::Values(Solver::kCoin, Solver::kHighs),
                         [](const auto& of) {
                           return of.param == Solver::kCoin ? "Coin" : "Highs";
                         });

TEST_P(EverySolver, FindsTheBestOfAllPoints) {
  int optimal = 0, infeasible = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    const RandomShape shape = seed % 3 ? RandomShape{} : RandomShape{.max_columns = 5, .upper = 3};
    const Program program = random_program(shape, rng);
    const auto best = best_of_all_points(program);
    const Outcome outcome = solved(program);
    EXPECT_EQ(name(outcome.status), name(best ? SolveStatus::kOptimal : SolveStatus::kInfeasible));
    if (best) {
      EXPECT_NEAR(outcome.objective.value_or(kInfinity), *best, kClose);
      EXPECT_NEAR(outcome.bound, *best, kClose);
    } else {
      EXPECT_EQ(outcome.bound, kInfinity);
    }
    (best ? optimal : infeasible)++;
  }
  EXPECT_GT(optimal, 50);
  EXPECT_GT(infeasible, 50);
}

TEST_P(EverySolver, MixesWholeAndOtherColumns) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    Program program = random_program({.max_columns = 8}, rng);
    for (size_t j = 0; j < program.columns.size(); j += 2) program.columns[j].integer = false;
    // By definition: the best of the linear programs in which the whole columns are fixed.
    std::optional<double> best;
    for (uint64_t set = 0; set < uint64_t{1} << (program.columns.size() / 2); ++set) {
      Program fixed = program;
      for (size_t j = 1; j < fixed.columns.size(); j += 2)
        fixed.columns[j].lower = fixed.columns[j].upper = static_cast<double>(set >> (j / 2) & 1);
      for (Column& column : fixed.columns) column.integer = false;
      const Outcome at = solved(fixed);
      if (at.objective && (!best || *at.objective < *best)) best = at.objective;
    }
    const Outcome outcome = solved(program);
    EXPECT_EQ(name(outcome.status), name(best ? SolveStatus::kOptimal : SolveStatus::kInfeasible));
    EXPECT_NEAR(outcome.objective.value_or(kNone), best.value_or(kNone), kClose);
  }
}

// Weak duality, by hand: the multipliers' signs, and the sum that they prove.
TEST_P(EverySolver, ProvesLinearProgramsByMultipliers) {
  int optimal = 0;
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    const Program program = random_program({.integer = false, .upper = 5}, rng);
    const Outcome outcome = solved(program);
    if (outcome.status == SolveStatus::kInfeasible) continue;
    ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
    ASSERT_EQ(outcome.duals.size(), program.rows.size());
    ASSERT_EQ(outcome.reduced_costs.size(), program.columns.size());
    double proven = program.constant;
    for (size_t r = 0; r < program.rows.size(); ++r) {
      const double y = outcome.duals[r];
      const double side = y > 0 ? program.rows[r].lower : program.rows[r].upper;
      if (std::abs(y) > 1e-9) proven += y * side;
    }
    for (size_t j = 0; j < program.columns.size(); ++j) {
      double reduced = program.columns[j].cost;
      for (size_t r = 0; r < program.rows.size(); ++r)
        for (const Entry& e : program.rows[r].entries)
          if (e.column == j) reduced -= outcome.duals[r] * e.value;
      EXPECT_NEAR(reduced, outcome.reduced_costs[j], kClose);
      proven += std::min(reduced * program.columns[j].lower, reduced * program.columns[j].upper);
    }
    EXPECT_NEAR(proven, *outcome.objective, kClose);
    EXPECT_NEAR(outcome.bound, *outcome.objective, kClose);
    ++optimal;
  }
  EXPECT_GT(optimal, 50);
}

TEST_P(EverySolver, SolvesByHand) {
  const Outcome linear = solved(three_goods(false));
  EXPECT_EQ(linear.status, SolveStatus::kOptimal);
  EXPECT_NEAR(linear.objective.value_or(0), -2200.0 / 3, kClose);
  const Outcome whole = solved(three_goods(true));
  EXPECT_EQ(whole.status, SolveStatus::kOptimal);
  EXPECT_EQ(whole.objective, -732);
  EXPECT_TRUE(whole.duals.empty());
}

TEST_P(EverySolver, SaysWhatHasNoEnd) {
  for (const bool integer : {false, true}) {
    Program program;
    program.columns = {{.cost = -1, .integer = integer}, {.cost = 0.5, .integer = integer}};
    program.rows = {{.upper = 1, .entries = {{0, 1}, {1, -1}}}};
    const Outcome endless = solved(program);
    EXPECT_EQ(name(endless.status), "unbounded");
    EXPECT_EQ(endless.bound, -kInfinity);
    EXPECT_TRUE(endless.objective.has_value());
    // The same direction, and no point to go from.
    program.columns.push_back({.upper = 1, .integer = integer});
    program.rows.push_back({.lower = 2, .entries = {{2, 1}}});
    EXPECT_EQ(name(solved(program).status), "infeasible");
  }
}

// 2x = 1 in whole numbers, beside a column that may fall without end.
TEST_P(EverySolver, IsNotUnboundedWithoutAPoint) {
  Program program;
  program.columns = {{.upper = 5, .integer = true}, {.cost = -1}};
  program.rows = {{.lower = 1, .upper = 1, .entries = {{0, 2}}},
                  {.lower = 0, .entries = {{1, 1}, {0, 1}}}};
  EXPECT_EQ(name(solved(program).status), "infeasible");
}

TEST_P(EverySolver, TakesProgramsWithNothingToDo) {
  Program program;
  program.constant = 4;
  EXPECT_EQ(solved(program).objective, 4);
  program.columns = {{.lower = 0.5, .upper = 2.5, .cost = 2, .integer = true},
                     {.lower = -1, .upper = 3, .cost = -1}};
  const Outcome outcome = solved(program);
  EXPECT_EQ(outcome.point, (std::vector<double>{1, 3}));
  EXPECT_EQ(name(outcome.status), "optimal");
  program.columns[0].upper = 0.75;
  EXPECT_EQ(name(solved(program).status), "infeasible");
  program.columns[0].upper = kInfinity;
  program.columns[0].cost = -1;
  EXPECT_EQ(name(solved(program).status), "unbounded");
  program.columns[0].cost = 0;
  program.rows = {{.name = "empty", .lower = 1}};
  EXPECT_EQ(name(solved(program).status), "infeasible");
}

TEST_P(EverySolver, StopsWhenItsWorkIsDone) {
  const Program program = knapsacks(50, 7);
  const Outcome few = solved(program, {.max_nodes = 10});
  EXPECT_EQ(name(few.status), "limit");
  EXPECT_FALSE(few.cut_short);
  const Outcome more = solved(program, {.max_nodes = 60});
  ASSERT_TRUE(few.objective && more.objective);
  EXPECT_LE(few.bound, *more.objective);
  EXPECT_LE(more.bound, *few.objective);
  EXPECT_GE(more.nodes, few.nodes);
  const Outcome iterations =
      solved(program, {.limits = {.max_units = 2000 * units_per_iteration(program)}});
  EXPECT_EQ(name(iterations.status), "limit");
  EXPECT_LE(iterations.bound, *more.objective);
  EXPECT_LE(iterations.iterations, 20'000);
  EXPECT_FALSE(iterations.cut_short);
  const Outcome none = solved(program, {.limits = {.max_units = 0}});
  EXPECT_EQ(name(none.status), "limit");
  EXPECT_LE(none.bound, *more.objective);
}

// Of points that brute force knows: whatever was cut off, no bound is above the best.
TEST_P(EverySolver, ClaimsNothingWrongWhereverItStops) {
  int stopped = 0;
  for (int seed = 0; seed < some_of(600, 6); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    Program program = random_program({.max_columns = 12, .max_rows = 8, .most = 60}, rng);
    if (seed % 2) program = knapsacks(static_cast<uint32_t>(rng.between(8, 12)), 6, rng);
    const double best = best_of_all_points(program).value_or(kNone);
    Options options;
    if (rng.below(2)) options.limits.max_units = rng.between(0, 60) * units_per_iteration(program);
    if (rng.below(2)) options.max_nodes = rng.between(0, 4);
    const Outcome outcome = solved(program, options);
    EXPECT_TRUE(outcome.bound <= best + kClose || best == kNone);
    EXPECT_GE(outcome.objective.value_or(kNone), best - kClose);
    EXPECT_TRUE(outcome.status != SolveStatus::kOptimal || *outcome.objective <= best + kClose);
    EXPECT_TRUE(outcome.status != SolveStatus::kInfeasible || best == kNone);
    stopped += outcome.status == SolveStatus::kLimit;
  }
  EXPECT_GT(stopped, 10);
}

TEST_P(EverySolver, StopsWithinALinearProgram) {
  Program program = knapsacks(200, 60);
  for (Column& column : program.columns) column.integer = false;
  const Outcome best = solved(program);
  EXPECT_EQ(name(best.status), "optimal");
  const Outcome part = solved(program, {.limits = {.max_units = 5 * units_per_iteration(program)}});
  EXPECT_EQ(name(part.status), "limit");
  EXPECT_LE(part.bound, *best.objective + kClose);
  EXPECT_GE(part.objective.value_or(kNone), *best.objective - kClose);
}

TEST_P(EverySolver, StopsAtTheGapThatIsAskedFor) {
  const Program program = knapsacks(40, 5);
  const Outcome outcome = solved(program, {.relative_gap = 0.05});
  ASSERT_TRUE(outcome.objective);
  EXPECT_TRUE(outcome.status == SolveStatus::kFeasible || outcome.status == SolveStatus::kOptimal);
  EXPECT_LE(*outcome.objective - outcome.bound, 0.05 * std::abs(*outcome.objective) + kClose);
}

TEST_P(EverySolver, IsNeverWorseThanItsStart) {
  const Program program = knapsacks(60, 8);
  const Outcome good = solved(program, {.max_nodes = 50});
  ASSERT_TRUE(good.objective);
  for (const int64_t iterations : {0, 1, 200, 2000}) {
    const Outcome from = solved(
        program,
        {.limits = {.max_units = iterations * units_per_iteration(program)}, .start = good.point});
    EXPECT_LE(from.objective.value_or(kInfinity), *good.objective) << iterations;
  }
  // A start that does not hold is none.
  const std::vector<double> all(60, 1);
  const Outcome outcome = solved(program, {.limits = {.max_units = 0}, .start = all});
  EXPECT_FALSE(outcome.objective.has_value());
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    const Program small = random_program({}, rng);
    std::vector<double> start;
    for (size_t j = 0; j < small.columns.size(); ++j)
      start.push_back(static_cast<double>(rng.below(2)));
    const auto best = best_of_all_points(small);
    const Outcome at = solved(small, {.start = start});
    EXPECT_EQ(at.objective.has_value(), best.has_value());
    EXPECT_NEAR(at.objective.value_or(kNone), best.value_or(kNone), kClose);
  }
}

TEST_P(EverySolver, StopsWhenItIsTold) {
  std::atomic<bool> cancel = true;
  const Program program = knapsacks(80, 20);
  const Outcome outcome = solved(program, {.limits = {.cancel = &cancel}});
  EXPECT_EQ(name(outcome.status), "limit");
  EXPECT_TRUE(outcome.cut_short);
  const Outcome late = solved(program, {.limits = {.max_seconds = 0.3}});
  EXPECT_EQ(name(late.status), "limit");
  EXPECT_TRUE(late.cut_short);
  EXPECT_GT(late.bound, -kInfinity);
}

TEST_P(EverySolver, AnswersTheSameTwice) {
  const Program program = knapsacks(40, 6);
  // The clock far off: looked at, and without a trace.
  const Outcome once = solved(program, {.max_nodes = 60});
  const Outcome twice = solved(program, {.limits = {.max_seconds = 1000}, .max_nodes = 60});
  EXPECT_EQ(once.point, twice.point);
  EXPECT_EQ(std::memcmp(&once.bound, &twice.bound, sizeof(double)), 0);
  EXPECT_EQ(once.iterations, twice.iterations);
  EXPECT_EQ(once.nodes, twice.nodes);
  EXPECT_EQ(once.solver, twice.solver);
}

TEST_P(EverySolver, RefusesWhatMakesNoSense) {
  Program program = three_goods(true);
  Options options{.solver = GetParam()};
  options.start = {1, 2};
  EXPECT_EQ(solve(program, options).error().message,
            "the point to start from has 2 values, the program 3 columns");
  options = {.solver = GetParam(), .relative_gap = -1};
  EXPECT_EQ(solve(program, options).error().message,
            "the relative gap is -1; it has to be 0 or more");
  program.columns[0].lower = 2, program.columns[0].upper = 1;
  EXPECT_EQ(solve(program, {.solver = GetParam()}).error().code, ErrorCode::kInput);
}

TEST(Solve, GoesOnWithoutHighs) {
  const HighsAt nowhere("nowhere/libhighs.so");
  const Result<Outcome> outcome = solve(three_goods(true), {});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->objective, -732);
  EXPECT_TRUE(outcome->solver.starts_with("CBC ")) << outcome->solver;
}

TEST(Solve, SaysWhereItLookedForHighs) {
  const HighsAt nowhere("nowhere/libhighs.so");
  const Result<Outcome> outcome = solve(three_goods(true), {.solver = Solver::kHighs});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUsage);
  for (const char* part : {"nowhere/libhighs.so", "LOWTIDE_HIGHS", "highsbox"})
    EXPECT_NE(outcome.error().message.find(part), std::string::npos) << outcome.error().message;
}

TEST(Solve, TakesNoOtherLibraryForHighs) {
  const HighsAt another("libm.so.6");
  const auto library = load_highs();
  ASSERT_FALSE(library);
  EXPECT_NE(library.error().message.find("it has no Highs_create"), std::string::npos)
      << library.error().message;
}

TEST(Solve, PrefersHighsWhereItIs) {
  name_test_library();
  if (!load_highs()) GTEST_SKIP() << load_highs().error().message;
  const Result<Outcome> outcome = solve(three_goods(true), {});
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->solver.starts_with("HiGHS 1.")) << outcome->solver;
}

}  // namespace
}  // namespace lowtide::solver
