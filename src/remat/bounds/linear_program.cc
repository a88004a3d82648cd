#include "remat/bounds/linear_program.h"

#include <algorithm>
#include <cmath>

namespace lowtide::remat {
namespace {

constexpr double kMiB = 0x1p20;
constexpr double kLargest = 0x1p30;  // a multiplier, in units: fits 32 bits

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct RelaxationTuning {
  int64_t part = 1000;    // iterations between two looks at the work left
  int64_t iteration = 1;  // units of work, by row and column
  int64_t start = 10;     // iterations that a start costs
};
constexpr RelaxationTuning kRelaxation;

double ticks_per_percent(const MultiCutProgram& program) {
  return std::max(1.0, static_cast<double>(program.once_ticks) / 100);
}

solver::Program relaxation_of(const MultiCutProgram& program) {
  const double percent = ticks_per_percent(program);
  solver::Program result;
  result.constant = static_cast<double>(program.forced_ticks) / percent;
  for (const int64_t ticks : program.ticks)
    result.columns.push_back({.upper = 1, .cost = static_cast<double>(ticks) / percent});
  for (const CutRow& row : program.rows) {
    const double scale = counts_bytes(row.name) ? 1 / kMiB : 1;
    solver::Row& out = result.rows.emplace_back();
    out.lower = scale * static_cast<double>(row.least);
    for (const CutTerm& term : row.terms)
      out.entries.push_back({term.variable, scale * static_cast<double>(term.coefficient)});
  }
  return result;
}

}  // namespace

LinearProgram::LinearProgram(const MultiCutProgram& program)
    : simplex_(relaxation_of(program)),
      units_per_percent_(ticks_per_percent(program) / static_cast<double>(program.unit_ticks)),
      fixed_(program.variables.size(), kFree) {}

void LinearProgram::set_fixed(std::span<const int8_t> fixed) {
  for (size_t j = 0; j < fixed.size(); ++j) {
    if (fixed_[j] == fixed[j]) continue;
    fixed_[j] = fixed[j];
    simplex_.set_bounds(j, fixed[j] == 1 ? 1 : 0, fixed[j] == 0 ? 0 : 1);
  }
}

// In parts, between which it looks whether it may go on.
void LinearProgram::solve(const Limits& limits, WorkBudget& work) {
  const int64_t units = simplex_.units_per_iteration();
  WorkBudget own(limits, units);
  solver::SimplexEnd end = solver::SimplexEnd::kStopped;
  while (end == solver::SimplexEnd::kStopped && own.steps_remaining() > 0 && own.look() &&
         work.look()) {
    const int64_t part = std::min(kRelaxation.part, own.steps_remaining());
    const auto run = simplex_.run(own.left().with_units(part * units));
    end = run.end;
    own.spend(std::max<int64_t>(1, run.iterations));
    work.spend((run.iterations + kRelaxation.start) * kRelaxation.iteration * units);
  }
  infeasible_ = end == solver::SimplexEnd::kInfeasible;
}

// The multipliers that show the contradiction, as large as they may be. Their sign is the solver's
// choice; multipliers are not negative.
void LinearProgram::add_ray(std::vector<double>& values) const {
  const std::vector<double> ray = simplex_.infeasibility_ray();
  if (ray.empty()) return;
  double sum = 0, largest = 0;
  for (size_t r = 0; r < values.size(); ++r)
    sum += ray[r], largest = std::max(largest, std::abs(ray[r]));
  if (largest > 0) {
    const double scale = (sum < 0 ? -kLargest / 2 : kLargest / 2) / units_per_percent_ / largest;
    for (size_t r = 0; r < values.size(); ++r) values[r] += scale * ray[r];
  }
}

std::vector<CutMultiplier> LinearProgram::multipliers() const {
  const auto dual = simplex_.duals();
  std::vector<double> values(dual.begin(), dual.end());
  if (infeasible_) add_ray(values);
  std::vector<CutMultiplier> result;
  for (size_t r = 0; r < values.size(); ++r) {
    const double units = std::round(std::clamp(values[r] * units_per_percent_, 0.0, kLargest));
    if (units > 0) result.push_back({static_cast<uint32_t>(r), static_cast<int32_t>(units)});
  }
  return result;
}

}  // namespace lowtide::remat
