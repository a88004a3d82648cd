// A linear program that is solved again and again with other bounds of its columns, as the nodes of
// a branch and bound tree are: the dual simplex method goes on from a basis, which stays dual
// feasible when bounds change (Lemke 1954; COIN-OR's Clp). Whether columns are integer is ignored.
//
// Floating point: what it says is to be checked (solver/program.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/limits.h"
#include "solver/program.h"

namespace lowtide::solver {

enum class SimplexEnd {
  kOptimal,
  kInfeasible,  // no point within the bounds
  kUnbounded,   // or infeasible: there is no dual feasible point
  kStopped,     // by a limit
  kFailed,      // numbers that it cannot cope with
};

class DualSimplex {
 public:
  using Basis = std::vector<unsigned char>;  // a state of each column, then of each row

  explicit DualSimplex(const Program& program);  // copies it; `program.check()` holds
  ~DualSimplex();
  DualSimplex(const DualSimplex&) = delete;
  DualSimplex& operator=(const DualSimplex&) = delete;

  void set_bounds(size_t column, double lower, double upper);
  // Empty: of a program that was never solved; setting it changes nothing.
  Basis basis() const;
  void set_basis(const Basis& basis);

  struct Run {
    SimplexEnd end = SimplexEnd::kStopped;
    int64_t iterations = 0;
  };
  // Goes on where it stopped, or from the basis set. An iteration takes units_per_iteration()
  // units; with fewer than that nothing is done. The clock and the flag are looked at after every
  // thousand iterations, not before the first of them.
  Run run(const Limits& limits);
  int64_t units_per_iteration() const { return units_per_iteration_; }

  // Where the last run ended. Views hold until the next.
  double objective() const;
  std::span<const double> point() const;          // by column
  std::span<const double> duals() const;          // by row: what one more of it costs
  std::span<const double> reduced_costs() const;  // by column
  // After kInfeasible: multipliers of the rows, up to their common sign, by which no point
  // satisfies their sum. Empty: it knows none.
  std::vector<double> infeasibility_ray() const;

 private:
  Run run_part(int max_iterations);

  struct Model;
  std::unique_ptr<Model> model_;
  size_t columns_ = 0, rows_ = 0;
  int64_t units_per_iteration_ = 1;
  double constant_ = 0;
};

}  // namespace lowtide::solver
