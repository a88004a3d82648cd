#include "solver/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lowtide::solver {
namespace {

constexpr size_t kMostEntries = size_t{1} << 31;
// A reduced cost smaller than this part of its terms is rounding, and counts as none where a
// column has no bound.
constexpr double kRounding = 1e-9;

std::string label(const char* what, size_t index, const std::string& name) {
  return name.empty() ? fmt::format("{} {}", what, index)
                      : fmt::format("{} {} '{}'", what, index, name);
}

bool is_number(double value) {
  return std::abs(value) < kLargest;
}

// What is wrong with bounds, or nothing.
std::string fault_of(double lower, double upper) {
  const auto is_bound = [](double value) { return is_number(value) || std::isinf(value); };
  if (!is_bound(lower) || lower == kInfinity)
    return fmt::format("its lower bound is {}, and has to be below {:g}, or -infinity", lower,
                       kLargest);
  if (!is_bound(upper) || upper == -kInfinity)
    return fmt::format("its upper bound is {}, and has to be below {:g}, or infinity", upper,
                       kLargest);
  if (lower > upper) return fmt::format("its lower bound {} is above its upper {}", lower, upper);
  return {};
}

// `last_row`: by column, the row that it was last seen in, counted from 1.
std::string fault_of(const Row& row, size_t number, std::vector<size_t>& last_row) {
  for (const Entry& entry : row.entries) {
    if (entry.column >= last_row.size())
      return fmt::format("it has an entry of column {}, and there are {}", entry.column,
                         last_row.size());
    if (!is_number(entry.value))
      return fmt::format("its entry of column {} is {}", entry.column, entry.value);
    if (last_row[entry.column] == number)
      return fmt::format("it has column {} twice", entry.column);
    last_row[entry.column] = number;
  }
  return fault_of(row.lower, row.upper);
}

double outside(double value, double lower, double upper) {
  return std::max({0.0, lower - value, value - upper});
}

// The least of cost * x within bounds. Of no cost: 0, also where there is no bound.
double least_of(double cost, double lower, double upper) {
  if (cost == 0) return 0;
  return cost * (cost > 0 ? lower : upper);
}

}  // namespace

int64_t units_per_iteration(const Program& program) {
  return std::max<int64_t>(1, static_cast<int64_t>(program.rows.size() + program.columns.size()));
}

bool Program::has_integers() const {
  return std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.integer; });
}

Status Program::check() const {
  const auto fault = [](const std::string& where, const std::string& what) {
    return error(ErrorCode::kInput, fmt::format("program: {}: {}", where, what));
  };
  if (!is_number(constant)) return fault("constant", fmt::format("it is {}", constant));
  for (size_t j = 0; j < columns.size(); ++j) {
    const Column& column = columns[j];
    std::string what = fault_of(column.lower, column.upper);
    if (!is_number(column.cost)) what = fmt::format("its cost is {}", column.cost);
    if (!what.empty()) return fault(label("column", j, column.name), what);
  }
  size_t entries = 0;
  std::vector<size_t> last_row(columns.size(), 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string what = fault_of(rows[r], r + 1, last_row);
    if (!what.empty()) return fault(label("row", r, rows[r].name), what);
    entries += rows[r].entries.size();
  }
  if (std::max({columns.size(), rows.size(), entries}) >= kMostEntries)
    return fault("size", fmt::format("{} columns, {} rows and {} entries; less than 2^31 of each",
                                     columns.size(), rows.size(), entries));
  return {};
}

Evaluation evaluate(const Program& program, std::span<const double> point) {
  LT_CHECK(point.size() == program.columns.size());
  Evaluation result;
  long double objective = program.constant;
  const auto violated = [&](double by, double unit) {
    const double share = std::isnan(by) ? kInfinity : by / std::max(1.0, unit);
    result.worst_violation = std::max(result.worst_violation, share);
  };
  for (size_t j = 0; j < point.size(); ++j) {
    const Column& column = program.columns[j];
    objective += static_cast<long double>(column.cost) * point[j];
    if (!std::isfinite(point[j])) {
      result.worst_violation = kInfinity;
      continue;
    }
    const double bound = point[j] < column.lower ? column.lower : column.upper;
    violated(outside(point[j], column.lower, column.upper), std::abs(bound));
    if (column.integer)
      result.worst_fraction =
          std::max(result.worst_fraction, std::abs(point[j] - std::round(point[j])));
  }
  for (const Row& row : program.rows) {
    long double sum = 0;
    double largest = 0;
    for (const Entry& entry : row.entries) {
      const double term = entry.value * point[entry.column];
      sum += static_cast<long double>(entry.value) * point[entry.column];
      largest = std::max(largest, std::abs(term));
    }
    const auto activity = static_cast<double>(sum);
    result.activities.push_back(activity);
    violated(outside(activity, row.lower, row.upper), largest);
  }
  result.objective = static_cast<double>(objective);
  return result;
}

double lagrangian_bound(const Program& program, std::span<const double> duals) {
  LT_CHECK(duals.size() == program.rows.size());
  long double total = program.constant;
  std::vector<long double> reduced;
  std::vector<double> largest;  // term of each reduced cost
  for (const Column& column : program.columns) {
    reduced.push_back(column.cost);
    largest.push_back(std::abs(column.cost));
  }
  for (size_t r = 0; r < duals.size(); ++r) {
    const Row& row = program.rows[r];
    double y = duals[r];
    if (!std::isfinite(y)) return -kInfinity;
    // A side that is not there proves nothing; another multiplier is none at all.
    if (std::isinf(y > 0 ? row.lower : row.upper)) y = 0;
    if (y == 0) continue;
    total += static_cast<long double>(y) * (y > 0 ? row.lower : row.upper);
    for (const Entry& entry : row.entries) {
      reduced[entry.column] -= static_cast<long double>(y) * entry.value;
      largest[entry.column] = std::max(largest[entry.column], std::abs(y * entry.value));
    }
  }
  for (size_t j = 0; j < reduced.size(); ++j) {
    const Column& column = program.columns[j];
    auto cost = static_cast<double>(reduced[j]);
    const bool endless = std::isinf(cost > 0 ? column.lower : column.upper);
    if (endless && std::abs(cost) <= kRounding * std::max(1.0, largest[j])) cost = 0;
    total += least_of(cost, column.lower, column.upper);
  }
  return static_cast<double>(total);
}

}  // namespace lowtide::solver
