#include "solver/dual_simplex.h"

#include <coin/Clp_C_Interface.h>

#include <algorithm>

#include "base/check.h"
#include "base/work.h"
#include "solver/sparse_columns.h"

namespace lowtide::solver {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SimplexTuning {
  int64_t part = 1000;  // iterations between two looks at the clock; each part factorizes anew
};
constexpr SimplexTuning kSimplex;

}  // namespace

struct DualSimplex::Model {
  Model() : clp(Clp_newModel()) { Clp_setLogLevel(clp, 0); }
  ~Model() { Clp_deleteModel(clp); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Clp_Simplex* clp;
};

DualSimplex::DualSimplex(const Program& program)
    : model_(std::make_unique<Model>()),
      columns_(program.columns.size()),
      rows_(program.rows.size()),
      units_per_iteration_(solver::units_per_iteration(program)),
      constant_(program.constant) {
  LT_CHECK(program.check());
  static_assert(sizeof(CoinBigIndex) == sizeof(int));
  const SparseColumns a(program, kClpInfinity);
  Clp_loadProblem(model_->clp, static_cast<int>(columns_), static_cast<int>(rows_), a.start.data(),
                  a.row.data(), a.value.data(), a.lower.data(), a.upper.data(), a.cost.data(),
                  a.row_lower.data(), a.row_upper.data());
}

DualSimplex::~DualSimplex() = default;

void DualSimplex::set_bounds(size_t column, double lower, double upper) {
  LT_CHECK(column < columns_);
  Clp_columnLower(model_->clp)[column] = std::max(lower, -kClpInfinity);
  Clp_columnUpper(model_->clp)[column] = std::min(upper, kClpInfinity);
}

DualSimplex::Basis DualSimplex::basis() const {
  if (!Clp_statusExists(model_->clp)) return {};
  const unsigned char* status = Clp_statusArray(model_->clp);
  return {status, status + columns_ + rows_};
}

void DualSimplex::set_basis(const Basis& basis) {
  if (basis.empty()) return;
  LT_CHECK(basis.size() == columns_ + rows_);
  Clp_copyinStatus(model_->clp, basis.data());
}

// In parts, between which it looks whether it may go on.
DualSimplex::Run DualSimplex::run(const Limits& limits) {
  WorkBudget work(limits, units_per_iteration_);
  Run run;
  do {
    const int64_t most = std::min<int64_t>(kSimplex.part, work.steps_remaining());
    if (most == 0) break;
    const Run part = run_part(static_cast<int>(most));
    run.end = part.end;
    run.iterations += part.iterations;
    work.spend(std::max<int64_t>(1, part.iterations));
  } while (run.end == SimplexEnd::kStopped && work.look());
  return run;
}

DualSimplex::Run DualSimplex::run_part(int max_iterations) {
  Clp_setMaximumIterations(model_->clp, max_iterations);
  Clp_setNumberIterations(model_->clp, 0);
  Clp_dual(model_->clp, 0);
  constexpr SimplexEnd kEnds[] = {SimplexEnd::kOptimal, SimplexEnd::kInfeasible,
                                  SimplexEnd::kUnbounded, SimplexEnd::kStopped};
  const int status = Clp_status(model_->clp);
  return {status >= 0 && status < 4 ? kEnds[status] : SimplexEnd::kFailed,
          Clp_numberIterations(model_->clp)};
}

double DualSimplex::objective() const {
  return Clp_objectiveValue(model_->clp) + constant_;
}

std::span<const double> DualSimplex::point() const {
  return {Clp_primalColumnSolution(model_->clp), columns_};
}

std::span<const double> DualSimplex::duals() const {
  return {Clp_dualRowSolution(model_->clp), rows_};
}

std::span<const double> DualSimplex::reduced_costs() const {
  return {Clp_dualColumnSolution(model_->clp), columns_};
}

std::vector<double> DualSimplex::infeasibility_ray() const {
  double* ray = Clp_infeasibilityRay(model_->clp);
  if (ray == nullptr) return {};
  std::vector<double> result(ray, ray + rows_);
  Clp_freeRay(model_->clp, ray);
  return result;
}

}  // namespace lowtide::solver
