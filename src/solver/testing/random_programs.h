// Tests only: small random programs, and their best points by trying all.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "solver/program.h"

namespace lowtide::solver {

struct RandomShape {
  int64_t max_columns = 9, max_rows = 7;
  int64_t most = 9;  // coefficients are whole numbers up to it, of either sign
  bool integer = true;
  int64_t upper = 1;  // of columns; lower is 0
};

inline Program random_program(const RandomShape& shape, Rng& rng) {
  Program program;
  program.constant = static_cast<double>(rng.between(-5, 5));
  const int64_t columns = rng.between(1, shape.max_columns);
  for (int64_t j = 0; j < columns; ++j)
    program.columns.push_back({.upper = static_cast<double>(shape.upper),
                               .cost = static_cast<double>(rng.between(-shape.most, shape.most)),
                               .integer = shape.integer});
  const int64_t rows = rng.between(0, shape.max_rows);
  for (int64_t r = 0; r < rows; ++r) {
    Row& row = program.rows.emplace_back();
    int64_t least = 0, most = 0;
    for (uint32_t j = 0; j < program.columns.size(); ++j) {
      if (rng.below(3) == 0) continue;
      const int64_t value = rng.between(-shape.most, shape.most);
      row.entries.push_back({j, static_cast<double>(value)});
      (value < 0 ? least : most) += value * shape.upper;
    }
    const auto a = static_cast<double>(rng.between(least, most));
    const auto b = static_cast<double>(rng.between(least, most));
    const uint64_t kind = rng.below(8);
    if (kind < 4) row.lower = std::min(a, b);
    if (kind >= 3 && kind < 7) row.upper = std::max(a, b);
    if (kind == 7) row.lower = row.upper = std::round((a + b) / 2);
  }
  return program;
}

// The least objective over all points of whole numbers; nothing: no point holds.
inline std::optional<double> best_of_all_points(const Program& program) {
  std::optional<double> best;
  std::vector<double> point;
  for (const Column& column : program.columns) point.push_back(column.lower);
  for (;;) {
    const Evaluation at = evaluate(program, point);
    if (at.holds(1e-9) && (!best || at.objective < *best)) best = at.objective;
    size_t j = 0;
    for (; j < point.size() && point[j] >= program.columns[j].upper; ++j)
      point[j] = program.columns[j].lower;
    if (j == point.size()) return best;
    point[j] += 1;
  }
}

}  // namespace lowtide::solver
