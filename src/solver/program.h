// Linear and mixed-integer programs as plain data:
//
//     minimise   constant + sum of cost * x
//     such that  lower <= sum of value * x <= upper   for each row
//                lower <= x <= upper                  for each column, and whole where it says so
//
// A side that does not bind is infinite. What a point is worth, and what multipliers of the rows
// prove, is computed here from the data alone, so that no solver has to be believed.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lowtide::solver {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Solvers take numbers from here on for infinite, so finite ones stay below.
inline constexpr double kLargest = 1e20;

struct Column {
  std::string name{};  // for messages and files; may be empty, need not be unique
  double lower = 0;
  double upper = kInfinity;
  double cost = 0;
  bool integer = false;
};

struct Entry {
  uint32_t column = 0;
  double value = 0;
};

struct Row {
  std::string name{};  // as of Column
  double lower = -kInfinity;
  double upper = kInfinity;
  std::vector<Entry> entries{};  // in any order
};

struct Program {
  std::vector<Column> columns;
  std::vector<Row> rows;
  double constant = 0;

  bool has_integers() const;
  // Names the row or column that makes no sense: a number that is none or too large, a lower bound
  // above its upper one, an entry of no column, a column twice in a row.
  Status check() const;
};

// Units of work (base/limits.h) of an iteration of the simplex method on it: as many as the program
// has rows and columns.
int64_t units_per_iteration(const Program& program);

// A point, measured. A row is violated by how much its sum is outside of its bounds, in units of
// its largest term or of 1, whichever is larger: sums of large numbers are not exact. A column is
// violated by how far its value is outside of its bounds, in units of the bound or of 1.
struct Evaluation {
  double objective = 0;
  std::vector<double> activities;  // sums, by row
  double worst_violation = 0;      // infinite where a value is not a number
  double worst_fraction = 0;       // of integer columns: how far from a whole number

  bool holds(double tolerance) const {
    return worst_violation <= tolerance && worst_fraction <= tolerance;
  }
};

// By how much a point may miss what it has to hold, in the units of Evaluation.
inline constexpr double kTolerance = 1e-6;

// `point` by column.
Evaluation evaluate(const Program& program, std::span<const double> point);

// What multipliers of the rows prove of the relaxation, and so of the program: by weak duality
//
//     objective >= constant + sum of y * (lower if y > 0, else upper)
//                           + sum over columns of min over lower <= x <= upper of (cost - y a) x
//
// whatever y is, up to rounding. -infinity where it proves nothing. `duals` by row.
double lagrangian_bound(const Program& program, std::span<const double> duals);

}  // namespace lowtide::solver
