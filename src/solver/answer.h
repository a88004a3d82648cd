// What a solver says, before anything of it is believed, and what it may spend. One function for
// each solver, all alike; solver/solve.cc makes outcomes of their answers.
//
// Tests: solve_test.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/work.h"
#include "solver/program.h"

namespace lowtide::solver {

struct Answer {
  enum class End {
    kDone,        // the best point, or one within the gap
    kInfeasible,  // there is no point
    kUnbounded,   // or infeasible; the relaxation is one of both
    kStopped,     // by a limit
  };
  End end = End::kStopped;
  double bound = -kInfinity;
  bool has_point = false;
  std::vector<double> point{};
  std::vector<double> duals{}, reduced_costs{};  // of a linear program; empty: none
  int64_t nodes = 0;
};

// Iterations of the simplex method are the steps of `work`.
struct Allowance {
  WorkBudget& work;
  int64_t max_nodes = 0;
  double absolute_gap = 0, relative_gap = 0;
  std::vector<double> start;  // holds; empty: none

  // Iterations that are left, as solvers count them.
  int iterations() const { return as_int(work.steps_remaining()); }
  int nodes() const { return as_int(max_nodes); }

 private:
  static int as_int(int64_t count) {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    return static_cast<int>(count < kMost ? count : kMost);
  }
};

}  // namespace lowtide::solver
