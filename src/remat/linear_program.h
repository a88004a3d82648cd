// The linear relaxation of a multi-cut's integer program, solved by COIN-OR's Clp: a dual simplex
// method that goes on from a basis when a variable is fixed. What it says is a hint (floating
// point, and an internal tolerance); bounds come from CutProgram::bound.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/work.h"
#include "remat/cut_program.h"

namespace lowtide::remat {

class LinearProgram {
 public:
  using Basis = std::vector<unsigned char>;

  explicit LinearProgram(const CutProgram& program);  // borrowed
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  // By variable; kFree: 0 to 1.
  void set_fixed(std::span<const int8_t> fixed);
  void set_basis(const Basis& basis);
  Basis basis() const;

  // Within so many iterations, and the work left. What is known afterwards is where it stopped.
  void solve(int max_iterations, WorkBudget& work);
  bool infeasible() const { return infeasible_; }
  double value() const;  // in percent of the step, beyond each op once
  std::span<const double> variables() const;
  // Multipliers of the rows; of an infeasible linear program some that prove very much.
  std::vector<CutMultiplier> multipliers() const;

 private:
  struct Model;
  void add_ray(std::vector<double>& values) const;

  std::unique_ptr<Model> model_;
  const CutProgram& program_;
  double units_per_percent_ = 1;
  double forced_percent_ = 0;
  std::vector<int8_t> fixed_;
  bool infeasible_ = false;
};

}  // namespace lowtide::remat
