// A program as the arrays that solvers take: entries by column, each in the order of its rows, and
// infinity as the number that the solver has for it.
//
// Tests: solve_test.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "solver/program.h"

namespace lowtide::solver {

inline constexpr double kClpInfinity = 1e30;

struct SparseColumns {
  SparseColumns(const Program& program, double infinity) {
    const auto finite = [&](double x) { return std::clamp(x, -infinity, infinity); };
    std::vector<int> count(program.columns.size() + 1, 0);
    for (const Row& r : program.rows) {
      row_lower.push_back(finite(r.lower));
      row_upper.push_back(finite(r.upper));
      for (const Entry& entry : r.entries) ++count[entry.column + 1];
    }
    for (size_t j = 0; j + 1 < count.size(); ++j) count[j + 1] += count[j];
    start = count;
    row.resize(static_cast<size_t>(count.back()));
    value.resize(row.size());
    for (size_t r = 0; r < program.rows.size(); ++r)
      for (const Entry& entry : program.rows[r].entries) {
        const auto at = static_cast<size_t>(count[entry.column]++);
        row[at] = static_cast<int>(r);
        value[at] = entry.value;
      }
    for (const Column& column : program.columns) {
      lower.push_back(finite(column.lower));
      upper.push_back(finite(column.upper));
      cost.push_back(column.cost);
    }
  }

  std::vector<int> start, row;  // of each column, one more than there are; of each entry
  std::vector<double> value;
  std::vector<double> lower, upper, cost;    // by column
  std::vector<double> row_lower, row_upper;  // by row
};

}  // namespace lowtide::solver
