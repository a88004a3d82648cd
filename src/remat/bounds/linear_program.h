// The linear relaxation of a multi-cut's integer program, in numbers near one: times in percent of
// the step, bytes in MiB. Solved by solver/dual_simplex.h, which goes on from a basis when a
// variable is fixed. What it says is a hint (floating point, and an internal tolerance); bounds
// come from MultiCutProgram::bound.
//
// Tests: branch_cut_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/work.h"
#include "remat/bounds/multi_cut_program.h"
#include "solver/dual_simplex.h"

namespace lowtide::remat {

class LinearProgram {
 public:
  using Basis = solver::DualSimplex::Basis;

  explicit LinearProgram(const MultiCutProgram& program);

  // By variable; kFree: 0 to 1.
  void set_fixed(std::span<const int8_t> fixed);
  void set_basis(const Basis& basis) { simplex_.set_basis(basis); }
  Basis basis() const { return simplex_.basis(); }

  // Within limits of its own, whose units are units_of() iterations, and as long as the caller's
  // work is not spent; what it takes is counted there, with what each start costs. Where these end
  // it, objective, variables and multipliers are those of the last iteration: the multipliers still
  // prove a bound.
  void solve(const Limits& limits, WorkBudget& work);
  int64_t units_of(int64_t iterations) const { return iterations * simplex_.units_per_iteration(); }
  bool infeasible() const { return infeasible_; }
  // Of the best point: percent of the step, beyond each op once.
  double objective() const { return simplex_.objective(); }
  std::span<const double> variables() const { return simplex_.point(); }
  // Multipliers of the rows: the dual point. Where no point satisfies the rows there are
  // multipliers whose bound grows without end as they are scaled (a Farkas ray, the proof of
  // infeasibility); a large multiple of one is added then, so that the bound is above every limit
  // asked for.
  std::vector<CutMultiplier> multipliers() const;

 private:
  void add_ray(std::vector<double>& values) const;

  solver::DualSimplex simplex_;
  double units_per_percent_ = 1;
  std::vector<int8_t> fixed_;
  bool infeasible_ = false;
};

}  // namespace lowtide::remat
