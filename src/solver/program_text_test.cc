// Programs as files, read back by CBC's readers and by HiGHS's: the same rows, the same numbers,
// the same optimum. HiGHS's part is skipped where its library is absent.
#include "solver/program_text.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <coin/OsiClpSolverInterface.hpp>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "solver/highs_library.h"
#include "solver/solve.h"
#include "solver/testing/random_programs.h"
#include "solver/testing/test_library.h"

namespace lowtide::solver {
namespace {

// A file that is gone in the end.
class TextFile {
 public:
  TextFile(const std::string& ending, const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("lowtide_program_{}{}", getpid(), ending)) {
    EXPECT_TRUE(write_file_atomically(path_, text));
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Program named_program() {
  Program program;
  program.constant = 2.5;
  program.columns = {{.name = "x", .lower = 1, .upper = 4, .cost = 0.1},
                     {.name = "end", .upper = 3, .cost = -1, .integer = true},
                     {.name = "e2", .lower = -kInfinity, .upper = 7},
                     {.name = "a b", .lower = -kInfinity, .cost = 1},
                     {.name = "a,b", .lower = 2, .upper = 2},
                     {}};
  program.rows = {{.name = "range", .lower = -1, .upper = 5.5, .entries = {{0, 1}, {3, -2}}},
                  {.name = "range", .upper = 6, .entries = {{1, 1. / 3}, {2, 1}, {5, 1}}},
                  {.name = "free", .entries = {{0, 1}}},
                  {.lower = 2, .upper = 2, .entries = {{2, 1}, {5, 1}}}};
  return program;
}

TEST(ProgramText, WritesTheLpFormat) {
  EXPECT_EQ(write_lp(named_program()), R"(Minimize
 obj: + 0.1 x - 1 x_end + 0 x_e2 + 1 a_b + 0 a_b_2
  + 0 x5 + 2.5 constant
Subject To
 range: + 1 x - 2 a_b >= -1
 range_2: + 1 x - 2 a_b <= 5.5
 range_3: + 0.3333333333333333 x_end + 1 x_e2 + 1 x5 <= 6
 r3: + 1 x_e2 + 1 x5 = 2
Bounds
 1 <= x <= 4
 0 <= x_end <= 3
 -inf <= x_e2 <= 7
 a_b free
 a_b_2 = 2
 constant = 1
Generals
 x_end
End
)");
}

TEST(ProgramText, WritesTheMpsFormat) {
  EXPECT_EQ(write_mps(named_program()), R"(NAME lowtide FREE
ROWS
 N obj
 G range
 L range_2
 L range_3
 E r3
COLUMNS
 x obj 0.1
 x range 1
 x range_2 1
 marker0 'MARKER' 'INTORG'
 x_end obj -1
 x_end range_3 0.3333333333333333
 marker1 'MARKER' 'INTEND'
 x_e2 obj 0
 x_e2 range_3 1
 x_e2 r3 1
 a_b obj 1
 a_b range -2
 a_b range_2 -2
 a_b_2 obj 0
 x5 obj 0
 x5 range_3 1
 x5 r3 1
RHS
 rhs obj -2.5
 rhs range -1
 rhs range_2 5.5
 rhs range_3 6
 rhs r3 2
BOUNDS
 LO bnd x 1
 UP bnd x 4
 LO bnd x_end 0
 UP bnd x_end 3
 MI bnd x_e2
 UP bnd x_e2 7
 FR bnd a_b
 FX bnd a_b_2 2
 LO bnd x5 0
 PL bnd x5
ENDATA
)");
}

double bound_of(double value) {
  return std::abs(value) >= kLargest ? std::copysign(kInfinity, value) : value;
}

// What CBC's reader made of it.
Program read_with_coin(const std::string& path, bool lp) {
  OsiClpSolverInterface osi;
  osi.messageHandler()->setLogLevel(0);
  EXPECT_EQ(lp ? osi.readLp(path.c_str()) : osi.readMps(path.c_str()), 0) << path;
  Program program;
  double offset = 0;
  osi.getDblParam(OsiObjOffset, offset);
  program.constant = -offset;
  for (int j = 0; j < osi.getNumCols(); ++j)
    program.columns.push_back({osi.getColName(j), bound_of(osi.getColLower()[j]),
                               bound_of(osi.getColUpper()[j]), osi.getObjCoefficients()[j],
                               osi.isInteger(j)});
  const CoinPackedMatrix* matrix = osi.getMatrixByRow();
  for (int r = 0; r < osi.getNumRows(); ++r) {
    Row& row = program.rows.emplace_back();
    row.name = osi.getRowName(r);
    row.lower = bound_of(osi.getRowLower()[r]);
    row.upper = bound_of(osi.getRowUpper()[r]);
    const auto vector = matrix->getVector(r);
    for (int i = 0; i < vector.getNumElements(); ++i)
      row.entries.push_back(
          {static_cast<uint32_t>(vector.getIndices()[i]), vector.getElements()[i]});
  }
  return program;
}

// Optimum by HiGHS's own reader and search; NaN: it has none.
double optimum_with_highs(const HighsLibrary& library, const std::string& path) {
  void* handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto read = reinterpret_cast<int (*)(void*, const char*)>(dlsym(handle, "Highs_readModel"));
  void* highs = library.create();
  library.set_bool(highs, "output_flag", 0);
  library.set_double(highs, "mip_rel_gap", 0);
  EXPECT_NE(read(highs, path.c_str()), -1) << path;
  library.run(highs);
  constexpr int kOptimal = 7;
  double objective = std::nan("");
  if (library.model_status(highs) == kOptimal)
    library.get_double(highs, "objective_function_value", &objective);
  library.destroy(highs);
  return objective;
}

// Programs with every kind of bound and side, and numbers that need all their digits.
Program varied_program(Rng& rng) {
  Program program = random_program({.max_columns = 7, .integer = false, .upper = 3}, rng);
  program.constant += rng.uniform();
  for (Column& column : program.columns) {
    column.cost *= 1 + rng.uniform();
    const uint64_t kind = rng.below(6);
    if (kind == 0) column.integer = true;
    if (kind == 1) column.lower = -3, column.integer = true;
    if (kind == 2) column.lower = column.upper = rng.uniform();
    if (kind == 3) column.lower = -2 - rng.uniform(), column.upper = -rng.uniform();
    if (kind == 4 && column.cost >= 0) column.upper = kInfinity;
    if (kind == 5 && column.cost <= 0) column.lower = -kInfinity;
  }
  for (Row& row : program.rows)
    for (Entry& e : row.entries) e.value *= 1 + rng.uniform();
  return program;
}

// The numbers are those that were written, but for the last digit: CBC's readers do not round as
// they should.
void expect_same(const Program& a, const Program& b) {
  const auto near = [](double x, double y) {
    return x == y || std::abs(x - y) <= 1e-14 * std::abs(x);
  };
  EXPECT_TRUE(near(a.constant, b.constant));
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (size_t j = 0; j < a.columns.size(); ++j) {
    EXPECT_EQ(a.columns[j].name, b.columns[j].name);
    EXPECT_EQ(a.columns[j].integer, b.columns[j].integer) << j;
    EXPECT_TRUE(near(a.columns[j].lower, b.columns[j].lower)) << j;
    EXPECT_TRUE(near(a.columns[j].upper, b.columns[j].upper)) << j;
    EXPECT_TRUE(near(a.columns[j].cost, b.columns[j].cost)) << j;
  }
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t r = 0; r < a.rows.size(); ++r) {
    EXPECT_EQ(a.rows[r].name, b.rows[r].name);
    EXPECT_TRUE(near(a.rows[r].lower, b.rows[r].lower)) << r;
    EXPECT_TRUE(near(a.rows[r].upper, b.rows[r].upper)) << r;
    ASSERT_EQ(a.rows[r].entries.size(), b.rows[r].entries.size());
  }
}

void check_both_formats(const Program& program, int seed) {
  SCOPED_TRACE(seed);
  const auto highs = load_highs();
  const auto outcome = solve(program, {.solver = Solver::kCoin});
  ASSERT_TRUE(outcome) << outcome.error().message;
  const TextFile lp(".lp", write_lp(program)), mps(".mps", write_mps(program));
  Program from_lp = read_with_coin(lp.path(), true);
  if (program.constant != 0) {
    from_lp.constant = from_lp.columns.back().cost;
    from_lp.columns.pop_back();
  }
  const Program from_mps = read_with_coin(mps.path(), false);
  expect_same(from_lp, from_mps);
  for (const Program* read : {&std::as_const(from_lp), &from_mps}) {
    const auto again = solve(*read, {.solver = Solver::kCoin});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(name(again->status), name(outcome->status));
    EXPECT_NEAR(again->objective.value_or(0), outcome->objective.value_or(0), 1e-6);
  }
  for (const TextFile* file : {&lp, &mps}) {
    if (!highs) continue;
    const double objective = optimum_with_highs(*highs, file->path());
    EXPECT_EQ(std::isnan(objective), outcome->status != SolveStatus::kOptimal) << file->path();
    if (!std::isnan(objective)) {
      EXPECT_NEAR(objective, outcome->objective.value_or(1e9), 1e-5) << file->path();
    }
  }
}

TEST(ProgramText, IsReadBackWithTheSameOptimum) {
  name_test_library();
  check_both_formats(named_program(), -1);
  for (int seed = 0; seed < 150; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    check_both_formats(varied_program(rng), seed);
  }
  if (!load_highs()) GTEST_SKIP() << "by CBC only: " << load_highs().error().message;
}

TEST(ProgramText, WritesWhatHasNoColumns) {
  Program program;
  program.rows = {{.upper = 3}};
  EXPECT_EQ(write_lp(program),
            "Minimize\n obj: + 0 constant\nSubject To\n r0: + 0 constant <= 3\nBounds\n"
            " constant = 1\nEnd\n");
}

TEST(ProgramText, NamesAreLegalWhateverTheyWere) {
  name_test_library();
  Program program;
  for (const char* name :
       {"",    "1",  "1e5",  "e5", "st",  "S.T.", "inf", "Infinity", "free", "obj", "end", "a+b",
        "a-b", "\n", "\xff", "x0", "x_2", "x",    "x",   ">=",       "[",    ":",   "NaN"})
    program.columns.push_back({.name = name, .upper = 1, .cost = -1, .integer = true});
  program.columns.push_back({.name = std::string(500, 'n'), .upper = 1, .cost = -1});
  program.columns.push_back({.name = std::string(500, 'n') + "2", .upper = 1, .cost = -1});
  for (uint32_t j = 0; j < program.columns.size(); ++j)
    program.rows.push_back(
        {.name = program.columns[j].name, .upper = 0.5 + j % 2, .entries = {{j, 1}}});
  check_both_formats(program, 0);
}

}  // namespace
}  // namespace lowtide::solver
