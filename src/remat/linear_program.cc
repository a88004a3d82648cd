#include "remat/linear_program.h"

#include <coin/Clp_C_Interface.h>

#include <algorithm>
#include <cmath>

namespace lowtide::remat {
namespace {

constexpr double kMiB = 0x1p20;
constexpr double kLargest = 0x1p30;  // a multiplier, in units
constexpr double kNoLimit = 1e30;
constexpr int kPart = 1000;                                   // iterations
constexpr int64_t kUnitsOfIteration = 1, kUnitsOfStart = 10;  // by row and column
constexpr int kInfeasible = 1, kStopped = 3;                  // Clp's status

}  // namespace

struct LinearProgram::Model {
  Model() : clp(Clp_newModel()) { Clp_setLogLevel(clp, 0); }
  ~Model() { Clp_deleteModel(clp); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Clp_Simplex* clp;
};

// Times in percent of the step and bytes in MiB: numbers near one.
LinearProgram::LinearProgram(const CutProgram& program)
    : model_(std::make_unique<Model>()), program_(program) {
  const size_t columns = program.variables.size(), rows = program.rows.size();
  const double percent = std::max(1.0, static_cast<double>(program.once_ticks) / 100);
  units_per_percent_ = percent / static_cast<double>(program.unit_ticks);
  forced_percent_ = static_cast<double>(program.forced_ticks) / percent;
  std::vector<std::vector<std::pair<int, double>>> by_column(columns);
  std::vector<double> least(rows), most(rows, kNoLimit);
  for (size_t r = 0; r < rows; ++r) {
    const CutRow& row = program.rows[r];
    const double scale = counts_bytes(row.name) ? 1 / kMiB : 1;
    least[r] = scale * static_cast<double>(row.least);
    for (const CutTerm& term : row.terms)
      by_column[term.variable].emplace_back(static_cast<int>(r),
                                            scale * static_cast<double>(term.coefficient));
  }
  std::vector<CoinBigIndex> start{0};
  std::vector<int> index;
  std::vector<double> entry, cost(columns), zero(columns, 0), one(columns, 1);
  for (size_t j = 0; j < columns; ++j) {
    for (const auto& [row, value] : by_column[j]) index.push_back(row), entry.push_back(value);
    start.push_back(static_cast<CoinBigIndex>(index.size()));
    cost[j] = static_cast<double>(program.ticks[j]) / percent;
  }
  Clp_loadProblem(model_->clp, static_cast<int>(columns), static_cast<int>(rows), start.data(),
                  index.data(), entry.data(), zero.data(), one.data(), cost.data(), least.data(),
                  most.data());
  fixed_.assign(columns, kFree);
}

LinearProgram::~LinearProgram() = default;

void LinearProgram::set_fixed(std::span<const int8_t> fixed) {
  double* lower = Clp_columnLower(model_->clp);
  double* upper = Clp_columnUpper(model_->clp);
  for (size_t j = 0; j < fixed.size(); ++j) {
    if (fixed_[j] == fixed[j]) continue;
    fixed_[j] = fixed[j];
    lower[j] = fixed[j] == 1 ? 1 : 0;
    upper[j] = fixed[j] == 0 ? 0 : 1;
  }
}

void LinearProgram::set_basis(const Basis& basis) {
  if (!basis.empty()) Clp_copyinStatus(model_->clp, basis.data());
}

LinearProgram::Basis LinearProgram::basis() const {
  if (!Clp_statusExists(model_->clp)) return {};
  const unsigned char* status = Clp_statusArray(model_->clp);
  return {status, status + program_.variables.size() + program_.rows.size()};
}

// In parts, between which it looks whether it may go on.
void LinearProgram::solve(int max_iterations, WorkBudget& work) {
  const auto size = static_cast<int64_t>(program_.rows.size() + program_.variables.size());
  int status = kStopped;
  for (int done = 0; done < max_iterations && status == kStopped && work.look();) {
    Clp_setMaximumIterations(model_->clp, std::min(kPart, max_iterations - done));
    Clp_setNumberIterations(model_->clp, 0);
    Clp_dual(model_->clp, 0);
    status = Clp_status(model_->clp);
    const int iterations = Clp_numberIterations(model_->clp);
    done += std::max(1, iterations);
    work.spend((iterations + kUnitsOfStart) * kUnitsOfIteration * size);
  }
  infeasible_ = status == kInfeasible;
}

double LinearProgram::value() const {
  return Clp_objectiveValue(model_->clp) + forced_percent_;
}

std::span<const double> LinearProgram::variables() const {
  return {Clp_primalColumnSolution(model_->clp), program_.variables.size()};
}

// The multipliers that show the contradiction, as large as they may be. Their sign is the solver's
// choice; multipliers are not negative.
void LinearProgram::add_ray(std::vector<double>& values) const {
  double* ray = Clp_infeasibilityRay(model_->clp);
  if (ray == nullptr) return;
  double sum = 0, largest = 0;
  for (size_t r = 0; r < values.size(); ++r)
    sum += ray[r], largest = std::max(largest, std::abs(ray[r]));
  if (largest > 0) {
    const double scale = (sum < 0 ? -kLargest / 2 : kLargest / 2) / units_per_percent_ / largest;
    for (size_t r = 0; r < values.size(); ++r) values[r] += scale * ray[r];
  }
  Clp_freeRay(model_->clp, ray);
}

std::vector<CutMultiplier> LinearProgram::multipliers() const {
  const double* dual = Clp_dualRowSolution(model_->clp);
  std::vector<double> values(dual, dual + program_.rows.size());
  if (infeasible_) add_ray(values);
  std::vector<CutMultiplier> result;
  for (size_t r = 0; r < values.size(); ++r) {
    const double units = std::round(std::clamp(values[r] * units_per_percent_, 0.0, kLargest));
    if (units > 0) result.push_back({static_cast<uint32_t>(r), static_cast<int32_t>(units)});
  }
  return result;
}

}  // namespace lowtide::remat
